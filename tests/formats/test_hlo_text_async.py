# SPDX-License-Identifier: Apache-2.0
"""Asynchronous ops in short form: read, printed in the long form, read by XLA as the short one."""

from __future__ import annotations

import pytest
from tests.support import real_xla

from ingot.formats.hlo_text import parse, print_module
from ingot.support.diagnostics import ParseError

HEAD = """HloModule m

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }

f { q = f32[4] parameter(0) ROOT n = f32[4] negate(q) }

"""
STARTS = {
    "negate": "((f32[4]), f32[4], u32[]) negate-start(p), async_execution_thread=\"other\"",
    "fusion": "((f32[4]), f32[4], s32[]) fusion-start(p), kind=kLoop, calls=f",
    "call": "((f32[4]), f32[4]) call-start(p), to_apply=f",
    "all-to-all": "((f32[4]), f32[4], u32[]) all-to-all-start(p), replica_groups={{0}}, "
    "dimensions={0}",
    "reduce-scatter": "((f32[4]), f32[4], u32[]) reduce-scatter-start(p), replica_groups={{0}}, "
    "dimensions={0}, to_apply=add",
    "custom-call": '((f32[4]), f32[4], u32[]) custom-call-start(p), custom_call_target="foo", '
    'backend_config="config"',
}  # fmt: skip


def _module(opcode: str) -> str:
    body = f"p = f32[4] parameter(0) s = {STARTS[opcode]} ROOT d = f32[4] {opcode}-done(s)"
    return HEAD + f"ENTRY e {{ {body} }}"


@pytest.mark.parametrize("opcode", STARTS)
def test_the_short_form_is_the_long_one(opcode: str) -> None:
    module = parse(_module(opcode))
    start = module.entry.root.operands[0]
    assert start.opcode == "async-start"
    assert start.attributes.calls.root.opcode == opcode
    assert start.attributes.calls.module is module
    theirs = real_xla.canonical_text(print_module(module))
    assert f"{opcode}-start(" in theirs
    assert real_xla.canonical_text(print_module(parse(theirs))) == theirs


def test_the_configuration_is_the_wrapped_ops() -> None:
    start = parse(_module("custom-call")).entry.root.operands[0]
    assert start.attributes.calls.root.extra["backend_config"] == '"config"'


def test_a_start_needs_its_shape() -> None:
    with pytest.raises(ParseError, match="needs its shape"):
        parse("HloModule m ENTRY e { p = f32[4] parameter(0) ROOT s = negate-start(p) }")
