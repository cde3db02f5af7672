# SPDX-License-Identifier: Apache-2.0
"""Parts of programs for strategies that sizes drawn at large seldom meet (`large_parts`).

Rows that are short, joined, kept or turned; folds of everything; tables larger than caches; arrays
larger than that; many small products and crowded large ones; depthwise filters; transforms and
selections of long rows; long chains of ops. Each function draws sizes around the thresholds of one
strategy, on both sides of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.differential.case import Array, small_integers, values
from tests.differential.shaping_cases import build_one
from tests.fuzz.large_parts import product_of
from tests.fuzz.program_case import EXACT
from tests.fuzz.surroundings import Part

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

_REAL = ("f32", "f32", "f32", "f64", "s32", "bf16", "f16", "u8", "s64")


def _draw(choose: random.Random) -> np.random.Generator:
    return np.random.default_rng(choose.getrandbits(48))


def softmax(choose: random.Random) -> Part:
    """Return rows that are normalized: what one pass computes dearly, a later one needs again."""
    dims = (choose.choice((1, 3, 65, 300)), choose.choice((3, 10, 12, 13, 64, 100, 1000)))
    element = choose.choice(("f32", "f32", "f64"))

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        (x,) = given
        rows = x.shape.dims
        low = b.constant(np.asarray(-np.inf).astype(x.shape.dtype.numpy))
        zero = b.constant(np.zeros((), x.shape.dtype.numpy))
        most = b.reduce(x, low, dimensions=(1,), to_apply=scalar_computation("maximum", element))
        powers = b.exponential(b.subtract(x, b.broadcast_to(most, rows, (0,))))
        total = b.reduce(powers, zero, dimensions=(1,), to_apply=scalar_computation("add", element))
        return b.divide(powers, b.broadcast_to(total, rows, (0,)))

    return Part([values(element, dims, _draw(choose))], build, "close 0.00001")


def attention(choose: random.Random) -> Part:
    """Return two products with a softmax between, some with a mask of positions or a bias."""
    m, n = choose.choice((31, 32, 65, 130)), choose.choice((95, 96, 141, 300))
    k, e = choose.choice((2, 16, 17)), choose.choice((2, 31, 64))
    kind, masked = choose.choice(("", "bias", "LE", "GT", "EQ")), choose.choice((-np.inf, -1e9))
    draw = _draw(choose)
    shapes = [(m, k), (n, k), (n, e), *[(m, n)] * (kind == "bias")]
    lows, adds = scalar_computation("maximum", "f32"), scalar_computation("add", "f32")

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        dims = (m, n)
        x = b.dot(*given[:2], lhs_contracting_dims=(1,), rhs_contracting_dims=(1,))
        if kind == "bias":
            x = b.add(x, given[3])
        elif kind:
            shape = Shape.array(dtype("s32"), dims)
            rows, keys = (b.iota(shape=shape, iota_dimension=i) for i in (0, 1))
            low = b.broadcast_to(b.constant(np.float32(masked)), dims, ())
            x = b.select(b.compare(keys, rows, direction=kind), x, low)
        most = b.reduce(x, b.constant(np.float32(-np.inf)), dimensions=(1,), to_apply=lows)
        powers = b.exponential(b.subtract(x, b.broadcast_to(most, dims, (0,))))
        total = b.reduce(powers, b.constant(np.float32(0)), dimensions=(1,), to_apply=adds)
        weights = b.divide(powers, b.broadcast_to(total, dims, (0,)))
        return b.dot(weights, given[2], lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))

    data = [draw.integers(-2, 3, shape).astype(np.float32) for shape in shapes]
    return Part(data, build, "close 0.0001")


def short_rows(choose: random.Random) -> Part:
    """Return folds of many short rows, with one or two arrays and something after."""
    rows, length = choose.choice((70, 3000, 6001)), choose.choice((2, 3, 4, 5, 7, 8, 9, 12, 16))
    element, name = choose.choice(_REAL), choose.choice(("add", "maximum", "minimum", "multiply"))
    narrow = element in ("bf16", "f16", "u8")
    name = "maximum" if narrow else name
    draw, count = _draw(choose), choose.randint(1, 2)
    data = [small_integers(element, (rows, length), draw) for _ in range(count)]
    if name == "multiply":  # Products of many are small when few are not one.
        data = [np.where(array == 2, array, np.ones_like(array)) for array in data]
    follows = choose.choice(("", "negate", "broadcast"))

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        value = given[0] if count == 1 else b.maximum(*given)
        start = b.constant(_neutral(name, value))
        made = b.reduce(
            value, start, dimensions=(1,), to_apply=scalar_computation(name, value.shape.dtype)
        )
        if follows == "broadcast":
            return b.add(b.broadcast_to(made, value.shape.dims, (0,)), value)
        can_negate = element not in ("u8",)
        return b.negate(made) if follows == "negate" and can_negate else made

    return Part(data, build)


def _neutral(name: str, value: Instruction) -> Array:
    kind = value.shape.dtype
    if name in ("add", "multiply"):
        return np.asarray(int(name == "multiply")).astype(kind.numpy)
    if kind.is_float:
        return np.asarray(-np.inf if name == "maximum" else np.inf).astype(kind.numpy)
    limits = np.iinfo(kind.numpy)
    return np.asarray(limits.min if name == "maximum" else limits.max, kind.numpy)


def whole_fold(choose: random.Random) -> Part:
    """Return a sum or maximum of all of a large array, or of few long rows of it."""
    length = choose.choice((1 << 18, 400_001, 1 << 20))
    rows, element = choose.choice((1, 1, 3)), choose.choice(("f32", "f32", "f64", "s32", "c64"))
    name = choose.choice(("add", "maximum")) if element != "c64" else "add"
    squares = choose.random() < 0.5

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        (x,) = given
        value = b.multiply(x, x) if squares else x
        start = b.constant(_neutral(name, value))
        called = scalar_computation(name, value.shape.dtype)
        return b.reduce(value, start, dimensions=(len(dims) - 1,), to_apply=called)

    dims = (length,) if rows == 1 else (rows, length // rows)
    return Part([small_integers(element, dims, _draw(choose))], build)


def places(choose: random.Random) -> Part:
    """Return where the greatest or least elements are, with s32 or s64 indices."""
    dims = choose.choice(((40, 33), (3, 1000), (200, 7), (1, 5000), (64, 64)))
    dim, element = choose.randrange(2), choose.choice(("f32", "f64", "s32", "bf16"))
    index = choose.choice(("s32", "s64"))
    direction = choose.choice(("GT", "LT"))

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        (x,) = given
        numbers = b.iota(shape=Shape.array(index, x.shape.dims), iota_dimension=dim)
        start = b.constant(_neutral("maximum" if direction == "GT" else "minimum", x))
        first = b.constant(np.zeros((), dtype(index).numpy))
        return b.reduce(
            x, numbers, start, first, dimensions=(dim,),
            to_apply=_first_extreme(element, index, direction),
        )  # fmt: skip

    return Part([small_integers(element, dims, _draw(choose))], build)


def _first_extreme(element: str, index: str, direction: str) -> Computation:
    """Return the reducer of (value, index) pairs: the extreme, of equal ones the first."""
    b = Builder("extreme")
    types = (element, index, element, index)
    a, i, c, j = (b.parameter(n, f"{kind}[]") for n, kind in enumerate(types))
    better = b.compare(a, c, direction=direction)
    is_first = b.compare(i, j, direction="LT")
    mine = b.emit("or", better, b.emit("and", b.compare(a, c, direction="EQ"), is_first))
    return b.build(b.tuple(b.select(mine, a, c), b.select(mine, i, j)))


def far_table(choose: random.Random) -> Part:
    """Return elements or rows taken from a table, small or larger than caches, or added to it."""
    width = choose.choice((1, 1, 3, 5, 16))
    rows = choose.choice((100, 5000, (1 << 20) // width + 100_000))
    count = choose.choice((100, 300, 2000))
    draw = _draw(choose)
    indices = draw.integers(-2, rows + 2, (count, 1)).astype(np.int32)
    gather = build_one(
        "gather", offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,),
        index_vector_dim=1, slice_sizes=(1, width),
    )  # fmt: skip
    is_fused = choose.random() < 0.5

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        # Made by the program: a case is a text.
        numbers = b.iota(shape=Shape.array("s32", (rows, width)), iota_dimension=0)
        barrier = b.emit("opt-barrier", b.tuple(numbers))
        made = gather(b, [b.get_tuple_element(barrier, index=0), *given])
        return b.add(made, b.full(1, made.shape)) if is_fused else made

    return Part([indices], build)


def stream(choose: random.Random) -> Part:
    """Return a small op on an array that no cache holds."""
    length = choose.choice((1 << 21, 17_000_000))
    op = choose.choice(("negate", "abs", "add"))

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        (x,) = given
        wide = b.broadcast_to(x, (length,), ())
        numbers = b.iota(shape=Shape.array("f32", (length,)), iota_dimension=0)
        made = b.emit("opt-barrier", b.tuple(b.add(numbers, wide)))
        value = b.get_tuple_element(made, index=0)
        value = b.emit(op, *([value] * (2 if op == "add" else 1)))
        step = max(1, length // 50)
        kept = b.emit("opt-barrier", b.tuple(value))
        return b.slice(b.get_tuple_element(kept, index=0), slice=((0, length, step),))

    return Part([np.float32(choose.randint(-3, 3))], build)


def small_products(choose: random.Random) -> Part:
    """Return many products of matrices that registers hold, or one of few or crowded rows."""
    if choose.random() < 0.5:
        m, n, k = (choose.choice((1, 2, 3, 4, 5, 8, 16)) for _ in range(3))
        return product_of(choose, ("f32", "f32", "f32"), (choose.choice((2, 30, 100)), m, n, k))
    depth = choose.choice((1000, 1024, 1024))
    m, n = choose.choice((5, 70, 300, 520)), choose.choice((256, 300, 600))
    return product_of(choose, ("f32", "f32", "f32"), (0, m, n, depth))


def depthwise(choose: random.Random) -> Part:
    """Return a depthwise convolution, of few channels or many."""
    channels = choose.choice((2, 3, 8, 16, 17, 33, 64))
    size, stride = choose.choice((3, 7, 8, 14, 15)), choose.choice((1, 1, 2))
    reach = choose.choice((0, 1, 1, 2))
    window = (WindowDimension(2 * reach + 1, stride, reach, reach),) * 2
    element = choose.choice(("f32", "f32", "f64", "bf16"))
    draw = _draw(choose)
    data = (
        small_integers(element, (choose.randint(1, 3), size, size + 1, channels), draw),
        small_integers(element, (2 * reach + 1, 2 * reach + 1, 1, channels), draw),
    )
    build = build_one(
        "convolution", window=window, dim_labels="b01f_01io->b01f", feature_group_count=channels
    )
    return Part(data, build, "ulps 2 of largest")


def image_gradient(choose: random.Random) -> Part:
    """Return the gradient of a layer's input: a convolution of an image with gaps."""
    size, stride = choose.choice((4, 7, 14, 20)), choose.choice((2, 2, 3))
    inputs, outputs = choose.choice((3, 8, 32, 64)), choose.choice((1, 3, 16, 17))
    taps = choose.choice((2, 3, 5))
    window = (WindowDimension(taps, 1, taps - 1, taps - 1, base_dilation=stride,
                              reversal=choose.random() < 0.5),) * 2  # fmt: skip
    draw = _draw(choose)
    data = (
        small_integers("f32", (choose.randint(1, 2), size, size, inputs), draw),
        small_integers("f32", (taps, taps, inputs, outputs), draw),
    )
    build = build_one("convolution", window=window, dim_labels="b01f_01io->b01f")
    return Part(data, build, "ulps 2 of largest")


def long_transform(choose: random.Random) -> Part:
    """Return a transform so long that it is cut into stages, real ones taken apart."""
    length = choose.choice((1 << 15, 1 << 16, 1 << 17, 30_000, 65_521, 3 << 14))
    kind = choose.choice(("FFT", "RFFT", "RFFT", "IRFFT"))
    # Where there are more dimensions, what is taken apart lies in scratch.
    lengths = choose.choice(((length,), (length,), (2, 1 << 15), (3, 30_000)))
    batch = choose.choice(((), (2,))) if len(lengths) == 1 else ()
    whole, half = (*batch, *lengths), (*batch, *lengths[:-1], lengths[-1] // 2 + 1)
    draw = _draw(choose)
    if kind == "IRFFT":
        axes = tuple(range(len(batch), len(whole)))
        data: Any = np.fft.rfftn(draw.normal(size=whole), axes=axes).astype(np.complex64)
    else:
        data = values("f32" if kind == "RFFT" else "c64", whole, draw)
    shape = Shape.array("f32" if kind == "IRFFT" else "c64", half if kind == "RFFT" else whole)
    build = build_one("fft", shape=shape, fft_type=kind, fft_length=lengths)
    return Part([data], build, "ulps 2048 of largest")


def long_selection(choose: random.Random) -> Part:
    """Return the greatest or least elements of a few long rows or many short ones."""
    rows, length = choose.choice(((1, 140_000), (3, 200_000), (500, 40), (40, 900), (2, 70_000)))
    k = choose.choice((1, 5, 20, 40))
    element = choose.choice(("f32", "s32", "bf16"))
    data = small_integers(element, (rows, length), _draw(choose))
    return Part([data], build_one("topk", k=k, largest=choose.random() < 0.5))


def chain(choose: random.Random) -> Part:
    """Return a long chain of ops on one array."""
    element = choose.choice(("f32", "f64", "bf16"))
    ops = [choose.choice(("multiply", "add", "maximum", "negate")) for _ in range(60)]

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        value, other = given
        half = b.full(0.5, value.shape)
        for op in ops:
            if op == "negate":
                value = b.negate(value)
            elif op == "multiply":
                value = b.multiply(b.add(value, other), half)
            else:
                value = b.emit(op, value, other)
        return value

    draw = _draw(choose)
    data = [values(element, (choose.choice((33, 1000)),), draw)]
    data.append(values(element, data[0].shape, draw))
    return Part(data, build, "close 0.1" if element == "bf16" else "close 0.0001")


def boxes(choose: random.Random) -> Part:
    """Return long runs that are moved as they lie: pads, joins, slices, rolls."""
    dims = (choose.choice((4, 40, 100)), choose.choice((64, 100, 700)))
    element, dim = choose.choice(_REAL), choose.randrange(2)
    by = choose.randint(1, 3)

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        x, y = given
        bounds = [(0, size, 1) for size in dims]
        first, second = list(bounds), list(bounds)
        first[dim], second[dim] = (by, dims[dim], 1), (0, by, 1)
        rolled = b.concatenate(
            b.slice(x, slice=tuple(first)), b.slice(x, slice=tuple(second)), dimensions=(dim,)
        )
        zero = b.constant(np.zeros((), x.shape.dtype.numpy))
        padded = b.pad(y, zero, padding=((by, 2, 0), (1, by, 0)))
        return b.tuple(rolled, padded, b.concatenate(x, y, dimensions=(dim,)))

    draw = _draw(choose)
    return Part([small_integers(element, dims, draw) for _ in range(2)], build, EXACT)


STRATEGY_PARTS = (
    softmax, attention, short_rows, short_rows, whole_fold, places, far_table, small_products,
    depthwise, image_gradient, long_transform, long_selection, chain, boxes, stream,
)  # fmt: skip
