# SPDX-License-Identifier: Apache-2.0
"""Floats of 8 and 4 bits, integers under a byte: every op on every value, checked three ways."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.support.against_evaluator import agrees
from tests.support.real_xla import run_hlo_text

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import DTYPES, dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape

pytestmark = pytest.mark.fast_share(2)

FLOATS = tuple(e.name for e in DTYPES.values() if e.is_float and e.bits <= 8)
INTEGERS = tuple(e.name for e in DTYPES.values() if e.is_integer and e.bits < 8)
NARROW = (*FLOATS, *INTEGERS)
FAST = ("f8e4m3fn", "s4")
TYPES = [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in NARROW]

EXACT = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder")
BITS = ("and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic", "power")
UNARY = {
    "float": ("abs", "negate", "sign", "sqrt", "floor", "ceil", "round-nearest-even", "tanh",
              "round-nearest-afz", "exponential", "logistic", "is-finite"),
    "integer": ("negate", "sign", "not", "popcnt", "count-leading-zeros", "abs"),
}  # fmt: skip
OTHERS = ("pred", "s8", "u8", "s32", "u32", "s64", "u64", "bf16", "f16", "f32", "f64", "f8e5m2",
          "f8e4m3fn", "f4e2m1fn", "s4", "u4", "s2")  # fmt: skip


def every(name: str) -> np.ndarray:
    """Return every value of a narrow type."""
    element = dtype(name)
    patterns = np.arange(1 << element.bits, dtype=np.uint8)
    if element.is_float:
        return patterns.view(element.numpy)
    half = 1 << (element.bits - 1)
    low = half if element.is_signed else 0
    return (patterns.astype(np.int32) - low).astype(element.numpy)


def small(name: str, dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Return small numbers, whose sums and products are mostly exact."""
    generator = np.random.default_rng(seed)
    element = dtype(name)
    if name == "f8e8m0fnu":
        return np.exp2(generator.integers(-2, 3, dims)).astype(element.numpy)
    if element.is_float:
        return (generator.integers(-4, 5, dims) / 2).astype(np.float32).astype(element.numpy)
    return generator.choice(every(name), dims)


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [np.asarray(value)]


def assert_same(got: np.ndarray, want: np.ndarray, what: str, known: Any = False) -> None:
    """Compare bit for bit, any NaN equal to any other; where `known`, they may differ."""
    assert got.dtype == want.dtype, what
    assert got.shape == want.shape, what
    if np.asarray(want).dtype.kind in "biu" or "int" in want.dtype.name:
        assert np.all((got == want) | known), what
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b) | known
    assert same.all(), f"{what}: {a[~same][:4]} {b[~same][:4]}"


def elementwise(name: str) -> tuple[Module, list[str]]:
    """Return a module with every elementwise op on two arrays."""
    element = dtype(name)
    count = every(name).size ** 2
    builder = Builder("main")
    shape = Shape.array(name, (count,))
    x, y = builder.parameter(0, shape), builder.parameter(1, shape)
    roots: dict[str, Instruction] = {}
    kind = "float" if element.is_float else "integer"
    for op in UNARY[kind]:
        roots[op] = builder.emit(op, x)
    for op in (*EXACT, *(() if element.is_float else BITS)):
        roots[op] = builder.emit(op, x, y)
    for direction in ("EQ", "NE", "LT", "GE"):
        roots[direction] = builder.compare(x, y, direction=direction)
    if element.is_float:
        roots["total"] = builder.compare(x, y, direction="LT", type="TOTALORDER")
    roots["select"] = builder.select(roots["LT"], x, y)
    if name not in ("s1", "u1"):
        bounds = [builder.constant(v, element) for v in (1, 1.5 if element.is_float else 1)]
        roots["clamp"] = builder.clamp(bounds[0], x, bounds[1])
    roots["chain"] = builder.subtract(builder.multiply(builder.add(x, y), y), x)
    return Module.of("narrow", builder.build(builder.tuple(*roots.values()))), list(roots)


def pairs(name: str) -> list[np.ndarray]:
    values = every(name)
    return [np.repeat(values, values.size), np.tile(values, values.size)]


@pytest.mark.parametrize("name", TYPES)
def test_every_op_on_every_pair_of_values(name: str) -> None:
    module, names = elementwise(name)
    inputs = pairs(name)
    with np.errstate(all="ignore"):
        wanted = leaves(evaluate(module, inputs))
    got = leaves(ingot.compile(module)(*inputs))
    for op, a, b in zip(names, got, wanted, strict=True):
        assert_same(a, b, f"{op} of {name}")


@pytest.mark.parametrize("name", TYPES)
def test_conversions_to_and_from_every_type(name: str) -> None:
    builder = Builder("main")
    x = builder.parameter(0, Shape.array(name, every(name).shape))
    there = [builder.emit("convert", x, shape=x.shape.with_dtype(n)) for n in OTHERS if n != name]
    back = [builder.emit("convert", value, shape=x.shape) for value in there]
    module = Module.of("conversions", builder.build(builder.tuple(*there, *back)))
    with np.errstate(all="ignore"):
        wanted = leaves(evaluate(module, [every(name)]))
    got = leaves(ingot.compile(module)(every(name)))
    for number, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert_same(a, b, f"{name}: conversion {number}")


PROGRAMS = """HloModule programs

add {
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT r = T[] add(a, b)
}

max {
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT r = T[] maximum(a, b)
}

less {
  a = T[] parameter(0)
  b = T[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}

ENTRY main {
  x = T[17,40] parameter(0)
  y = T[40,9] parameter(1)
  i = s32[20,1] parameter(2)
  u = T[20,40] parameter(3)
  w = s8[40,9] parameter(4)
  k = T[3,3,1,2] parameter(5)
  zero = T[] constant(0)
  sum = T[17] reduce(x, zero), dimensions={1}, to_apply=add
  most = T[40] reduce(x, zero), dimensions={0}, to_apply=max
  cumulative = T[17,40] reduce-window(x, zero), window={size=1x40 pad=0_0x39_0}, to_apply=add
  window = T[8,19] reduce-window(x, zero), window={size=3x3 stride=2x2}, to_apply=max
  number = s32[17,40] iota(), iota_dimension=1
  sorted = (T[17,40], s32[17,40]) sort(x, number), dimensions={1}, is_stable=true, to_apply=less
  product = T[17,9] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  wide = f32[17,9] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  mixed = s32[17,9] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  image = T[1,17,40,1] reshape(x)
  filtered = f32[1,15,38,2] convolution(image, k), window={size=3x3}, dim_labels=b01f_01io->b01f
  taken = T[20,40] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,40}
  updated = T[17,40] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  padded = T[19,83] pad(x, zero), padding=1_1x2_2_1
  turned = T[40,17] transpose(x), dimensions={1,0}
  counted = T[3,40] iota(), iota_dimension=1
  joined = T[17,80] concatenate(x, x), dimensions={1}
  ROOT r = (T[17], T[40], T[17,40], T[8,19], (T[17,40], s32[17,40]), T[17,9], f32[17,9], s32[17,9], f32[1,15,38,2], T[20,40], T[17,40], T[19,83], T[40,17], T[3,40], T[17,80]) tuple(sum, most, cumulative, window, sorted, product, wide, mixed, filtered, taken, updated, padded, turned, counted, joined)
}
"""  # noqa: E501


@pytest.mark.parametrize("name", TYPES)
def test_reductions_contractions_and_movement(name: str) -> None:
    text = re.sub(r"\bT\[", f"{name}[", PROGRAMS)
    if name == "f8e8m0fnu":
        text = text.replace("constant(0)", "constant(1)")  # it has no zero
    places = np.random.default_rng(0).permutation(17)[:, None].astype(np.int32)
    inputs = [
        small(name, (17, 40), 1),
        small(name, (40, 9), 2),
        # Once each: the order of several updates to one place is free.
        np.concatenate([places, np.full((3, 1), 99, np.int32)]),
        small(name, (20, 40), 3),
        np.random.default_rng(4).integers(-9, 10, (40, 9)).astype(np.int8),
        small(name, (3, 3, 1, 2), 5),
    ]
    with np.errstate(all="ignore"):
        wanted = leaves(evaluate(parse(text), inputs))
    got = leaves(ingot.compile(parse(text))(*inputs))
    for number, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert_same(a, b, f"{name}: output {number}")


def run_both(text: str, *inputs: np.ndarray) -> list[Any]:
    return agrees(parse(text), inputs).results[0].tolist()


BITCAST = """HloModule bits

ENTRY main {{
  x = {} parameter(0)
  ROOT r = {} bitcast-convert(x)
}}
"""


def test_two_halves_of_a_byte_are_the_low_and_the_high_bits() -> None:
    halves = np.array([[1, 2], [-3, 4]]).astype(ml_dtypes.int4)
    text = BITCAST.format("s4[2,2]", "s8[2]")
    assert run_both(text, halves) == [0x21, 0x4D]
    text = BITCAST.format("u8[2]", "u2[2,4]")
    assert run_both(text, np.uint8([0b11100100, 7])) == [[0, 1, 2, 3], [3, 1, 0, 0]]
    text = BITCAST.format("u32[1]", "f4e2m1fn[1,8]")
    assert run_both(text, np.uint32([0xF8764321])) == [[0.5, 1, 1.5, 2, 4, 6, -0.0, -6]]


def test_unused_bits_in_memory_do_not_count() -> None:
    text = """HloModule unused

ENTRY main {
  x = s4[3] parameter(0)
  y = f4e2m1fn[3] parameter(1)
  a = s32[3] convert(x)
  b = s32[3] convert(y)
  ROOT r = s32[3] add(a, b)
}
"""
    dirty = np.uint8([0x71, 0xF7, 0x8F]).view(ml_dtypes.int4)
    four = np.uint8([0xF2, 0x74, 0x8A]).view(ml_dtypes.float4_e2m1fn)
    assert ingot.compile(parse(text))(dirty, four).tolist() == [2, 9, -2]


@pytest.mark.parametrize("layout", ["s4[8]{0:E(4)}", "s4[]{:E(4)}", "u2[3,5]{1,0:E(2)}"])
def test_the_packed_layout_of_xla_is_read_and_printed(layout: str) -> None:
    text = f"HloModule packed\n\nENTRY main {{\n  ROOT x = {layout} parameter(0)\n}}\n"
    assert f"%x = {layout} parameter(0)" in print_module(parse(text))


@pytest.mark.parametrize("name", NARROW)
def test_literals_are_printed_and_read(name: str) -> None:
    builder = Builder("main")
    module = Module.of("literal", builder.build(builder.constant(every(name))))
    again = parse(print_module(module)).entry.root.attributes.literal.value
    np.testing.assert_array_equal(again.view(np.uint8), every(name).view(np.uint8))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NARROW if n not in ("s1", "u1")])
def test_real_xla_gives_the_same(name: str) -> None:
    element = dtype(name)
    inputs = pairs(name)
    count = inputs[0].size
    known = np.zeros(count, np.bool_)
    if name == "f8e8m0fnu":
        numbers = [value.astype(np.float64) for value in inputs]
        # Products and quotients that XLA flushes, and those it makes of flushed numbers.
        size = np.abs(np.log2(numbers[0])), np.abs(np.log2(numbers[1]))
        known = (size[0] == 127) | (size[1] == 127) | (size[0] + size[1] > 126)
    unary = ("abs", "negate") if element.is_signed or element.is_float else ()
    ops = [*EXACT, *unary, "LT", *(() if element.is_float else BITS)]
    for op in ops:
        operands = "x" if op in unary else "x, y"
        call, result = (f"{op}({operands})", name)
        if op == "LT":
            call, result = "compare(x, y), direction=LT", "pred"
        text = (
            f"HloModule m\n\nENTRY main {{\n  x = {name}[{count}]{{0}} parameter(0)\n"
            f"  y = {name}[{count}]{{0}} parameter(1)\n  ROOT r = {result}[{count}]{{0}} {call}\n}}"
        )
        got = np.asarray(ingot.compile(parse(text))(*inputs))
        assert_same(got, run_hlo_text(text, inputs)[0], f"{op} of {name}", known)


@pytest.mark.parametrize("name", ["s2", "u2", "s4", "u4", "f4e2m1fn"])
def test_random_numbers_cover_their_range(name: str) -> None:
    element = dtype(name)
    low, high = (-2, 3) if element.is_float else (int(every(name).min()), int(every(name).max()))
    module = parse(
        f"HloModule m\nENTRY e {{ a = {name}[] constant({low}) b = {name}[] constant({high}) "
        f"ROOT r = {name}[4000] rng(a, b), distribution=rng_uniform }}"
    )
    found = np.unique(np.asarray(ingot.compile(module)()).astype(np.float64))
    wanted = np.unique(every(name).astype(np.float64))
    inside = wanted[(wanted >= low) & (wanted < high)]
    # A float may be rounded up to the limit.
    assert set(inside.tolist()) <= set(found.tolist()) <= {*inside.tolist(), float(high)}


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_long_sums_do_not_stop_growing(name: str) -> None:
    """Rounded at every step, a sum of bf16 in 0..1 stays at 256."""
    x = np.random.default_rng(0).uniform(0, 0.03, 100_000).astype(dtype(name).numpy)
    true = x.astype(np.float64).cumsum()
    reducer = f"add {{ a = {name}[] parameter(0)\n b = {name}[] parameter(1)\n"
    text = f"""HloModule m
{reducer} ROOT c = {name}[] add(a, b) }}
ENTRY e {{ x = {name}[100000] parameter(0)
  zero = {name}[] constant(0)
  sum = {name}[] reduce(x, zero), dimensions={{0}}, to_apply=add
  sums = {name}[100000] reduce-window(x, zero), window={{size=100000 pad=99999_0}}, to_apply=add
  ROOT r = ({name}[], {name}[100000]) tuple(sum, sums) }}"""
    total, sums = ingot.compile(ingot.parse_hlo(text))(x)
    assert total == true[-1].astype(x.dtype)
    error = np.abs(sums.astype(np.float64) / true - 1)
    assert error.max() <= np.float64(np.finfo(x.dtype).eps if name == "f16" else 2**-8)
