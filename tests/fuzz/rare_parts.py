# SPDX-License-Identifier: Apache-2.0
"""Parts of programs that strategies and passes wait for which other parts reach seldom or never.

Joins of many arrays, sorts of which little is used, loops that compute the same in each turn or
share a body, products with rows a power of two apart, filters of no tap, long real transforms of
several dimensions. Numbers are small whole ones where sums have to be exact.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from tests.differential.case import small_integers
from tests.differential.shaping_cases import build_one
from tests.fuzz.program_case import EXACT
from tests.fuzz.surroundings import Part

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension


def _draw(choose: random.Random) -> np.random.Generator:
    return np.random.default_rng(choose.getrandbits(48))


def wide_join(choose: random.Random) -> Part:
    """Return a concatenation of more operands than a kernel takes."""
    count, dim = choose.choice((65, 100, 200)), choose.randrange(2)
    element = choose.choice(("f32", "s32", "bf16", "u8"))
    draw = _draw(choose)
    data = [small_integers(element, (3, 2), draw) for _ in range(2)]

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        many = [given[n % 2] for n in range(count)]
        return b.concatenate(*many, dimensions=(dim,))

    return Part(data, build)


def unused_sort(choose: random.Random) -> Part:
    """Return a sort that moves an array for nobody, or of which only the first rows are kept."""
    element, length = choose.choice(("s32", "s64", "u8", "s16")), choose.choice((40, 200, 1000))
    direction, keeps_first = choose.choice(("LT", "GT")), choose.random() < 0.5
    keys = small_integers(element, (4, length), _draw(choose))

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        (x,) = given
        places = b.iota(shape=Shape.array(S32, x.shape.dims), iota_dimension=1)
        operands = (x, places) if keeps_first else (x, b.negate(places))
        inner = Builder("order")
        pairs = [
            inner.parameter(2 * n + side, Shape.array(operand.shape.dtype, ()))
            for n, operand in enumerate(operands)
            for side in (0, 1)
        ]
        called = inner.build(inner.compare(*pairs[:2], direction=direction))
        made = b.sort(*operands, dimensions=(1,), is_stable=True, to_apply=called)
        if not keeps_first:
            return b.get_tuple_element(made, index=0)
        box = ((0, 4, 1), (0, choose.choice((1, 3)), 1))
        parts = [b.slice(b.get_tuple_element(made, index=n), slice=box) for n in range(2)]
        return b.tuple(*parts)

    return Part([keys], build)


def _counted(state: Shape, turns: int) -> Computation:
    inner = Builder("condition")
    number = inner.get_tuple_element(inner.parameter(0, state), index=0)
    return inner.build(inner.compare(number, inner.constant(np.int32(turns)), direction="LT"))


def invariant_product(choose: random.Random) -> Part:
    """Return loops that compute a product of what does not change, or that share a body."""
    size, turns = choose.choice((9, 12, 17)), choose.randint(1, 4)
    shares = choose.random() < 0.5
    draw = _draw(choose)
    data = [small_integers("f32", (size, size), draw) for _ in range(2)]

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        x, y = given
        state = Shape.tuple((Shape.array(S32, ()), x.shape, y.shape, y.shape))
        body = Builder("body")
        taken = body.parameter(0, state)
        number, value, left, right = (body.get_tuple_element(taken, index=n) for n in range(4))
        made = body.dot(left, right, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
        following = body.add(number, body.constant(np.int32(1)))
        step = body.build(body.tuple(following, body.maximum(value, made), left, right))
        test, value = _counted(state, turns), x
        for _ in range(2 if shares else 1):
            begun = b.tuple(b.constant(np.int32(0)), b.negate(value), x, y)
            looped = b.emit("while", begun, condition=test, body=step)
            value = b.get_tuple_element(looped, index=1)
        return value

    return Part(data, build)


def crowded_product(choose: random.Random) -> Part:
    """Return a product of many rows that are a power of two apart: both operands are packed."""
    m, n = choose.choice((512, 520)), choose.choice((33, 48, 64, 80))
    depth = choose.choice((1024, 2048))
    flipped = choose.random() < 0.5
    b_dims = (n, depth) if flipped else (depth, n)
    seeds = (choose.randint(1, 7), choose.randint(1, 7))

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        # Made by the program: a case is a text.
        sides = [
            _whole_numbers(b, given[0], dims, by)
            for dims, by in zip(((m, depth), b_dims), seeds, strict=True)
        ]
        kept = b.emit("opt-barrier", b.tuple(*sides))
        lhs, rhs = (b.get_tuple_element(kept, index=side) for side in range(2))
        made = b.dot(
            lhs, rhs, lhs_contracting_dims=(1,), rhs_contracting_dims=(1 if flipped else 0,)
        )
        return b.slice(made, slice=((0, m, 37), (0, n, 3)))

    return Part([np.float32(choose.randint(0, 2))], build)


def _whole_numbers(b: Builder, first: Instruction, dims: tuple[int, int], by: int) -> Instruction:
    """Return whole numbers from -3 to 4 that depend on their place."""
    places = [b.iota(shape=Shape.array(S32, dims), iota_dimension=dim) for dim in range(2)]
    mixed = b.add(b.multiply(places[0], b.full(by, places[0].shape)), places[1])
    few = b.emit("and", mixed, b.full(7, mixed.shape))
    values = b.subtract(b.convert_to(few, "f32"), b.full(3, Shape.array("f32", dims)))
    return b.add(values, b.broadcast_to(first, dims, ()))


def batch_last(choose: random.Random) -> Part:
    """Return a product of complex numbers whose batch lies last."""
    m, n, k, batch = (choose.choice((2, 3, 5, 8, 17)) for _ in range(4))
    draw = _draw(choose)
    element = choose.choice(("c64", "c128"))
    data = [
        small_integers(element, (m, k, batch), draw),
        small_integers(element, (k, n, batch), draw),
    ]
    build = build_one(
        "dot", shape=f"{element}[{batch},{m},{n}]", lhs_batch_dims=(2,), rhs_batch_dims=(2,),
        lhs_contracting_dims=(1,), rhs_contracting_dims=(0,),
    )  # fmt: skip
    return Part(data, build)


def spread_image(choose: random.Random) -> Part:
    """Return a convolution of an image with wider gaps than the filter has taps."""
    size, stride = choose.choice((7, 14)), choose.choice((2, 3))
    taps = choose.choice((1, 1, 2))
    inputs, outputs = choose.choice((8, 16, 32)), choose.choice((8, 16, 17))
    window = (WindowDimension(taps, 1, taps - 1, taps - 1, base_dilation=stride),) * 2
    draw = _draw(choose)
    data = (
        small_integers("f32", (1, size, size, inputs), draw),
        small_integers("f32", (taps, taps, inputs, outputs), draw),
    )
    build = build_one("convolution", window=window, dim_labels="b01f_01io->b01f")
    return Part(data, build, "ulps 2 of largest")


def wide_filter_gradient(choose: random.Random) -> Part:
    """Return the gradient of a filter of some more features than whole panels have."""
    inputs, outputs = choose.choice((8, 16)), choose.choice((12, 13, 24, 25, 27, 45, 60))
    size, batch = choose.choice((7, 8, 14)), choose.choice((1, 2, 4))
    windows = (WindowDimension(size, low=1, high=1),) * 2
    draw = _draw(choose)
    data = (
        small_integers("f32", (batch, size, size, inputs), draw),
        small_integers("f32", (batch, size, size, outputs), draw),
    )
    build = build_one("convolution", window=windows, dim_labels="f01b_i01o->01bf")
    return Part(data, build, "ulps 2 of largest")


def plane_transform(choose: random.Random) -> Part:
    """Return a real transform of few long rows: halves are taken apart in scratch."""
    lengths = (2, choose.choice((1 << 15, 1 << 16)))
    half = (2, lengths[1] // 2 + 1)
    draw = _draw(choose)
    data = np.fft.rfftn(draw.normal(size=lengths)).astype(np.complex64)
    shape = Shape.array("f32", lengths)
    assert data.shape == half
    build = build_one("fft", shape=shape, fft_type="IRFFT", fft_length=lengths)
    return Part([data], build, "ulps 2048 of largest")


def window_sum(choose: random.Random) -> Part:
    """Return sums of a few neighbours in a large array, beside or below one another."""
    rows, length = choose.choice(((70, 1024), (5, 1 << 14), (300, 256)))
    element = choose.choice(("f32", "f32", "f64", "s32"))
    size, pads = choose.choice((2, 3, 5, 8)), choose.random() < 0.3
    shift, dim = choose.randint(1, 7), choose.randrange(2)

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        (first,) = given
        places = b.iota(shape=Shape.array(S32, (rows, length)), iota_dimension=1)
        few = b.emit(
            "and", b.multiply(places, b.full(shift, places.shape)), b.full(7, places.shape)
        )
        values = b.add(b.convert_to(few, element), b.broadcast_to(first, (rows, length), ()))
        kept = b.get_tuple_element(b.emit("opt-barrier", b.tuple(values)), index=0)
        side = size - 1 if pads else 0
        window = [WindowDimension(1)] * 2
        window[dim] = WindowDimension(size, low=side)
        zero = b.constant(np.zeros((), kept.shape.dtype.numpy))
        made = b.reduce_window(
            kept, zero, window=tuple(window), to_apply=scalar_computation("add", element)
        )
        made = b.get_tuple_element(b.emit("opt-barrier", b.tuple(made)), index=0)
        steps = (7, 51)
        return b.slice(
            made, slice=tuple((0, n, step) for n, step in zip(made.shape.dims, steps, strict=True))
        )

    return Part([small_integers(element, (), _draw(choose))], build)


def long_chain(choose: random.Random) -> Part:
    """Return so many ops on an array that a machine of 32 registers computes them in a chain."""
    count, element = choose.choice((90, 150)), choose.choice(("s32", "u32"))
    ops = [choose.choice(("multiply", "add", "xor", "subtract")) for _ in range(count)]
    data = [small_integers(element, (choose.choice((64, 1000)),), _draw(choose))] * 2

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        value, other = given
        for op in ops:
            value = b.emit(op, b.add(value, other), value)
        return value

    return Part(data, build, EXACT)


RARE_PARTS = (
    wide_join, unused_sort, invariant_product, crowded_product, batch_last, spread_image,
    wide_filter_gradient, plane_transform, window_sum, long_chain,
)  # fmt: skip
