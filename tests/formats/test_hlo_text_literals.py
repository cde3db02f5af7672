# SPDX-License-Identifier: Apache-2.0
"""HLO text: literals of every element type and rank, the same bits back, the text of real XLA."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import real_xla

from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import DTYPES, DType, Kind
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import ParseError

pytestmark = pytest.mark.fast_share(4)

ARRAYS = [row for row in DTYPES.values() if row.storage is not None]
SMALL_FLOATS = [row for row in ARRAYS if row.kind is Kind.FLOAT and row.bits <= 16]


def module_of(literal: Literal) -> Module:
    """Return the module that gives `literal`."""
    builder = Builder("main")
    constant = builder.emit("constant", shape=literal.shape, literal=literal)
    return Module.of("m", builder.build(constant))


def read_back(literal: Literal) -> Literal:
    """Return `literal`, printed and parsed."""
    return parse(print_module(module_of(literal))).entry.root.attributes.literal


def of_bits(element: DType, values: np.ndarray) -> Literal:
    """Return the literal whose elements have these bits."""
    array = np.ascontiguousarray(values).view(element.numpy)
    return Literal(Shape.array(element, array.shape), array)


def small_literal(element: DType, dims: tuple[int, ...]) -> Literal:
    """Return a literal of `dims` that every element type can hold."""
    values = np.arange(int(np.prod(dims))).reshape(dims) % 2
    return Literal.of(values, element)


@pytest.mark.parametrize("element", ARRAYS, ids=str)
@pytest.mark.parametrize("dims", [(), (0,), (1,), (3,), (0, 2), (2, 0), (2, 1), (2, 3), (1, 2, 2)])
def test_every_element_type_and_rank_reads_back(element: DType, dims: tuple[int, ...]):
    literal = small_literal(element, dims)
    assert read_back(literal) == literal


@pytest.mark.parametrize("element", SMALL_FLOATS, ids=str)
def test_every_bit_pattern_of_small_floats_reads_back(element: DType):
    if element.bits < 8:
        literal = Literal(
            Shape.array(element, (16,)), np.arange(16, dtype=np.uint8).view(element.numpy)
        )
    elif element.bits == 8:
        literal = of_bits(element, np.arange(256, dtype=np.uint8))
    else:
        literal = of_bits(element, np.arange(0, 65536, dtype=np.uint16))
    again = read_back(literal)
    old, new = literal.value, again.value
    bad = np.flatnonzero(old.view(f"u{old.itemsize}") != new.view(f"u{new.itemsize}"))
    assert bad.size == 0, [(old[i], new[i]) for i in bad[:5]]


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8))
def test_f32_reads_back_bit_for_bit(bits: list[int]):
    literal = of_bits(DTYPES["f32"], np.array(bits, np.uint32))
    assert read_back(literal) == literal


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=8))
def test_f64_and_c64_read_back_bit_for_bit(bits: list[int]):
    values = np.array(bits, np.uint64)
    for element in ("f64", "c64"):
        literal = of_bits(DTYPES[element], values)
        assert read_back(literal) == literal


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=4))
def test_integers_read_back(bits: list[int]):
    for name in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        literal = of_bits(DTYPES[name], np.array(bits, np.uint64))
        assert read_back(literal) == literal


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e3m4"])
def test_floats_print_as_xla_prints_them(name: str):
    rng = np.random.default_rng(1)
    element = DTYPES[name]
    with np.errstate(over="ignore"):
        values = (rng.standard_normal(10) * 10.0 ** rng.integers(-4, 4, 10)).astype(element.numpy)
    line = next(
        line
        for line in print_module(module_of(Literal.of(values, name))).splitlines()
        if "ROOT" in line
    )
    theirs = real_xla.canonical_text(print_module(module_of(Literal.of(values, name))))
    assert line in theirs.splitlines()


def test_special_values_mean_the_same_to_xla():
    bits = [0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800123, 1, 0x80000001]
    literal = of_bits(DTYPES["f32"], np.array(bits, np.uint32))
    (result,) = real_xla.run_hlo_text(print_module(module_of(literal)), [])
    assert result.view(np.uint32).tolist() == bits


def test_tuples_of_literals_read_back():
    inner = Literal.tuple((Literal.of([1, 2], "s32"), Literal.of(True)))
    literal = Literal.tuple((Literal.of(1.5, "f32"), inner))
    assert read_back(literal) == literal
    assert "( 1.5, ( {1, 2}, true ) )" in print_module(module_of(literal))


@pytest.mark.parametrize(
    "text",
    [
        "s8[1] constant({128})",
        "u8[1] constant({-1})",
        "s32[1] constant({1.5})",
        "pred[1] constant({2})",
        "f32[1] constant({1e39})",
        "f64[1] constant({1e400})",
        "f32[2] constant({1, 2},)",
        "f32[2] constant({{1, 2}})",
        "f32[] constant({1})",
        "c64[] constant(1)",
        "c64[1] constant({(1, )})",
        "f32[] constant(nan(0xfffffff))",
        "f8e4m3fn[] constant(nan(0x3))",
        "f32[?n] constant({1})",
        "token[] constant(1)",
        "(f32[], s32[]) constant((1))",
    ],
)
def test_invalid_values_are_refused(text: str):
    with pytest.raises(ParseError):
        parse(f"HloModule m ENTRY e {{ ROOT c = {text} }}")


def test_comments_inside_a_literal_are_blanks():
    text = "HloModule m ENTRY e { ROOT c = f32[2,1] constant({ /*i0=0*/ {1}, /*i0=1*/ {2} }) }"
    assert parse(text).entry.root.attributes.literal.value.tolist() == [[1], [2]]
