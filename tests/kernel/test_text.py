# SPDX-License-Identifier: Apache-2.0
"""Kernel IR as text: what is printed is read back, and what is no kernel is refused with its place.

Kernels are written by hand, those of whole programs, and those of random ones.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest
from tests.fuzz.targets.strategy_programs import LOADED, generate
from tests.kernel.programs import SOFTMAX, flat, fused, whole_sum
from tests.kernel.test_kernel_passes import PROGRAMS
from tests.kernel.test_kernel_passes import _text as program_text
from tests.kernel.texts import SAMPLES

import ingot
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DTYPES, DType
from ingot.host.sites import scheduled_fusions
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, Scalar
from ingot.kernel.generic.generalize import generalized
from ingot.kernel.ir import Axis, ContractionKernel, Kernel, PlainConvolution
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.lowering import kernel_history
from ingot.kernel.parse import parse_kernel, parse_kernels
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.text import fingerprint, kernel_text, scalar_of, scalar_text
from ingot.llvm.machine_model import Vectors
from ingot.support.diagnostics import ParseError
from ingot.support.records import replace

VECTORS = Vectors(512, 32)


def _check(kernel: Kernel) -> str:
    text = kernel_text(kernel)
    assert parse_kernel(text) == kernel, text
    return text


def _kernels(fusions: list[Computation]) -> Iterator[Kernel]:
    for one in fusions:
        for _, kernel in kernel_history(one):
            yield kernel


# ---- what is printed is read back


@pytest.mark.parametrize("name", SAMPLES)
def test_a_text_is_printed_as_it_was_read(name: str) -> None:
    assert kernel_text(parse_kernel(SAMPLES[name])) == SAMPLES[name]


def test_layout_and_comments_do_not_matter() -> None:
    for text in SAMPLES.values():
        flat_text = re.sub(r"\s+", " ", text)
        assert kernel_text(parse_kernel(f"// what\n /* it is */ {flat_text}")) == text


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_programs_are_read_back(name: str) -> None:
    executable = ingot.compile(parse_hlo(program_text(PROGRAMS[name])))
    fusions = [f.attributes.calls for f in scheduled_fusions(executable.module)]
    texts = [_check(kernel) for kernel in _kernels(fusions)]
    assert texts or name == "sum of nothing"


def test_kernels_of_every_size_are_read_back() -> None:
    for kernel in map(build_loop_kernel, (fused(SOFTMAX), flat("?n", 3), whole_sum("?m", "?n"))):
        _check(kernel)
        _check(collapse(kernel))


def test_generic_kernels_are_read_back_with_their_parameters() -> None:
    kernel = collapse(build_loop_kernel(flat(70, 13)))
    generic = generalized(kernel, schedule_loops(kernel, VECTORS))
    assert not isinstance(generic, str)
    assert generic.kernel.parameters
    text = _check(generic.kernel)
    assert f"parameters [{', '.join(generic.kernel.parameters)}]" in text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_kernels_of_random_programs_are_read_back(seed: int) -> None:
    data = generate(random.Random(seed)).removeprefix(LOADED).decode()
    executable = ingot.compile(parse_hlo(data))
    fusions = [f.attributes.calls for f in scheduled_fusions(executable.module)]
    kernels = list(_kernels(list(dict.fromkeys(fusions))))
    for kernel in kernels:
        _check(kernel)


def test_the_listing_of_a_program_is_read_back() -> None:
    executable = ingot.compile(parse_hlo(program_text(PROGRAMS["softmax"])))
    held = parse_kernels(executable.as_text("kernel"))
    assert [f"k_{fingerprint(kernel)}" for kernel in held.values()] == list(held)
    assert parse_kernels(executable.as_text("kernel_passes")).keys() > {f"{next(iter(held))} built"}


def _other(value: object) -> object:
    """Return another value for a field of a kernel."""
    match value:
        case bool():
            return not value
        case int() | Dim():
            return value + 1
        case str():
            return f"I{value}"
        case Axis() | PlainConvolution() | ContractionKernel():
            first = fields(value)[0].name
            return replace(value, **{first: _other(getattr(value, first))})
        case DType():
            return DTYPES["f64"]
        case Expr():
            return value.args[0] if value.args else ex.constant(np.float64(3))
        case tuple() if value:
            return value[:-1]
        case ():
            return ("other",)
        case _:
            return None


@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_that_differ_in_a_field_have_other_texts(name: str) -> None:
    kernel = parse_kernel(SAMPLES[name])
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        is_part = field.name in ("grid", "local_buffers", "patches") and not value
        other = None if is_part else _other(value)
        if other is not None or value:
            changed = replace(kernel, **{field.name: other})
            assert kernel_text(changed) != SAMPLES[name], field.name


# ---- constants


@pytest.mark.parametrize("element", [e for e in DTYPES.values() if e.storage is not None], ids=str)
def test_every_pattern_of_bits_is_read_back(element: DType) -> None:
    choose = np.random.default_rng(0)
    patterns = [bytes([n]) * element.bytes for n in range(256)]
    patterns += [choose.bytes(element.bytes) for _ in range(100)]
    for bits in patterns:
        scalar = Scalar(bits, element.name)
        assert scalar_of(scalar_text(scalar), element) == scalar


def test_numbers_read_as_people_write_them() -> None:
    found = {text: scalar_of(text, DTYPES["f32"]) for text in ("0.1", "1e-05", "-inf", "7")}
    assert [scalar_text(scalar) for scalar in found.values() if scalar is not None] == [
        "0.1", "1e-05", "-inf", "7.0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ("s8", "128"), ("u8", "-1"), ("s4", "8"), ("pred", "1"), ("f16", "1e9"), ("f32", "1e99"),
        ("f8e4m3fn", "inf"), ("f4e2m1fn", "nan"), ("f32", "0x7fc0"), ("c64", "1.0"), ("f32", ""),
        ("f32", "1.0, 2.0"), ("c64", "1.0, x"), ("s32", "1.5"), ("f32", "1_0"), ("s32", "٣"),
    ],
)  # fmt: skip
def test_a_number_that_a_type_does_not_have_is_refused(element: str, text: str) -> None:
    assert scalar_of(text, DTYPES[element]) is None


# ---- what is no kernel

BASE = """loop over [@0 < 8] {
  b0 = in f32[8]
  b1 = out f32[8]
  pass over [] {
    v0 = f32 load b0[@0]
    v1 = f32 negate(v0)
    b1[@0] = v1
  }
}
"""

REFUSED = {
    ("loop over", "lop over"): ("1:1", "INGOT0102", "there is no kernel 'lop'"),
    ("[@0 <", "[x <"): ("1:12", "INGOT0101", "expected an axis, such as @0, found 'x'"),
    ("b1 = out", "b2 = out"): ("3:3", "INGOT0101", "expected buffer b1, found b2"),
    ("b1 = out", "b1 = in"): ("1:1", "INGOT0114", "store_output"),
    ("in f32", "in float"): ("2:11", "INGOT0110", "unknown element type 'float'"),
    ("in f32[8]", "in f32[8"): ("3:3", "INGOT0101", "expected ']' after the size of a buffer"),
    ("load b0[@0]", "load b0[@0+]"): ("5:25", "INGOT0110", "expected an index, found ']'"),
    ("load b0[@0]", "load b0[mod(@0,0)]"): ("5:22", "INGOT0110", "this size divides by 0"),
    ("negate(v0)", "negate(v2)"): ("6:21", "INGOT0104", "v2 is not defined before it is used"),
    ("v1 = f32", "v0 = f32"): ("6:5", "INGOT0105", "v0 is defined twice"),
    ("negate", "negates"): ("6:14", "INGOT0102", "unknown opcode 'negates'"),
    ("negate", "reshape"): ("1:1", "INGOT0114", "op_elementwise: reshape"),
    ("negate(v0)", "negate(v0, v0)"): ("1:1", "INGOT0114", "op: negate takes 1 operands"),
    ("negate(v0)", "compare(v0, v0)"): ("6:14", "INGOT0108", "compare needs attribute 'direction'"),
    ("negate(v0)", "negate(v0), way=up"): ("6:26", "INGOT0103", "negate has no attribute 'way'"),
    ("negate(v0)", "constant(x)"): ("6:23", "INGOT0106", "'x' is no f32"),
    ("negate(v0)", "index(@0)"): ("6:14", "INGOT0110", "an index is s64, not f32"),
    ("b1[@0] = v1", "b1[@1] = v1"): ("1:1", "INGOT0114", "index_axes: the index @1 has @1"),
    ("b1[@0] = v1", "c1[@0] = v1"): ("7:5", "INGOT0101", "expected a value"),
    ("b1[@0] = v1", "r0 = fold"): ("7:10", "INGOT0101", "expected 'reduce', found 'fold'"),
    ("  }\n}\n", "  }\n"): ("9:1", "INGOT0101", "expected 'pass', found the end of the text"),
    ("  }\n}\n", "  }\n}\n}"): ("10:1", "INGOT0101", "expected the end of the text, found '}'"),
}


@pytest.mark.parametrize("change", REFUSED, ids=str)
def test_an_error_says_where_and_what_was_expected(change: tuple[str, str]) -> None:
    place, code, message = REFUSED[change]
    assert BASE.count(change[0]) == 1
    with pytest.raises(ParseError) as found:
        parse_kernel(BASE.replace(*change), "x.kernel")
    assert found.value.diagnostic.code == code
    assert message in found.value.diagnostic.message
    assert f"--> x.kernel:{place}\n" in str(found.value)


def test_deep_sizes_are_refused() -> None:
    for deep in ("floordiv(" * 400 + "n" + ",2)" * 400, "max(n," * 60 + "m" + ")" * 60):
        with pytest.raises(ParseError, match="INGOT0109"):
            parse_kernel(BASE.replace("f32[8]", f"f32[{deep}]", 1))


def test_two_kernels_of_one_label_are_refused() -> None:
    assert list(parse_kernels(f"one: {BASE}two built: {BASE}")) == ["one", "two built"]
    with pytest.raises(ParseError, match="two kernels are labelled one"):
        parse_kernels(f"one: {BASE}one: {BASE}")
    with pytest.raises(ParseError, match="expected the label of a kernel"):
        parse_kernels(BASE)


_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
_OTHERS = (
    *("-1", "99999999999999999999", "@", "@1", "$0", "floordiv(n,0)", "token", "tuple", "call"),
    *("reduce", "convert", "nan", "0x00", "pred", "s4", "{", "}", '"', "\\", "\x00", "é", "\udcff"),
)


def _mutated(text: str, choose: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(choose.choice((1, 1, 2, 4))):
        at = choose.randrange(len(tokens))
        other = choose.choice((*tokens, *_OTHERS))
        tokens[at : at + choose.randrange(2)] = [other] * choose.randrange(2)
    return "".join(tokens)


def test_any_text_is_a_kernel_or_a_parse_error() -> None:
    choose = random.Random(0)
    texts = [*SAMPLES.values()]
    refused = taken = 0
    count = 800
    for _ in range(count):
        text = _mutated(choose.choice(texts), choose)
        try:
            kernel = parse_kernel(text)
        except ParseError as error:
            refused += error.diagnostic.span is not None
        else:
            _check(kernel)
            taken += 1
    assert refused + taken == count
    assert refused > 400
    assert taken > 40
