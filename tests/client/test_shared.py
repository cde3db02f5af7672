# SPDX-License-Identifier: Apache-2.0
"""Equal programs are one executable, whoever compiles them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from ingot.client import clear_caches, compile, shared
from ingot.client.compilation import default_context
from ingot.formats.hlo_text import parse
from ingot.hlo.literal import Literal
from ingot.hlo.opset.structural import ConstantAttributes
from ingot.support.flags import FP, override

TEXT = "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] exponential(x) }"
CONSTANT = "HloModule m ENTRY e { ROOT c = f32[2] constant({1, 2}) }"
NAN = "HloModule m ENTRY e { ROOT c = f32[] constant(nan) }"
RANDOM = """HloModule m
ENTRY e { zero = f32[] constant(0) one = f32[] constant(1)
          ROOT r = f32[4] rng(zero, one), distribution=rng_uniform }"""
CALL = "HloModule m ENTRY e { x = f32[4,4] parameter(0) ROOT c = f32[4,4] cholesky(x) }"


@pytest.fixture(autouse=True)
def fresh() -> None:
    clear_caches()


def test_equal_programs_are_compiled_once() -> None:
    first = compile(parse(TEXT))
    assert compile(parse(TEXT)) is first
    assert compile(parse(TEXT.replace("exponential", "sine"))) is not first
    assert compile(parse(TEXT.replace("m ENTRY", "other ENTRY"))) is not first


def test_switches_tell_programs_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile(parse(TEXT))
    with override(FP, "exact"):
        exact = compile(parse(TEXT))
        assert exact is not first
        assert compile(parse(TEXT)) is exact
    assert compile(parse(TEXT), context=default_context()) is not first
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=cse")
    assert compile(parse(TEXT)) is not first


def test_constants_are_compared_bit_by_bit() -> None:
    assert compile(parse(CONSTANT)) is compile(parse(CONSTANT))
    module, other = parse(NAN), parse(NAN)
    bits = module.entry.root.attributes.literal.value.view(np.uint32) ^ 1
    root = other.entry.root
    other.entry.set_attributes(root, ConstantAttributes(Literal.of(bits.view(np.float32))))
    assert compile(module) is not compile(other)


@pytest.mark.parametrize("text", [RANDOM, CALL])
def test_state_and_calls_are_not_shared(text: str) -> None:
    assert compile(parse(text)) is not compile(parse(text))


def test_dumps_are_written_each_time(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile(parse(TEXT))
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path}")
    assert compile(parse(TEXT)) is not first


def test_few_programs_stay_when_nobody_holds_them() -> None:
    known = [
        shared.fingerprint(parse(TEXT.replace("m ENTRY", f"m{number} ENTRY")), *how())
        for number in range(40)
    ]
    for number in range(40):
        compile(parse(TEXT.replace("m ENTRY", f"m{number} ENTRY")))
    gc.collect()
    alive = [key is not None and shared.find(key) is not None for key in known]
    assert alive == [False] * 8 + [True] * 32


def how() -> tuple[object, object]:
    from ingot.llvm.target import TargetSpec
    from ingot.support.xla_flags import current_xla_flags

    return TargetSpec.host(), current_xla_flags()
