# SPDX-License-Identifier: Apache-2.0
"""Parts of programs whose sizes decide how a kernel runs: products, convolutions, sorts and more.

Sizes, element types, dimension numbers and windows are drawn so that each strategy of the CPU
backend has its turn: blocks and their remainders, packed operands, Winograd tiles, sorts in parts,
mixed radices. Numbers are small whole ones where sums have to be exact.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.differential.case import Array, small_integers, values
from tests.differential.shaping_cases import build_one
from tests.fuzz.program_case import EXACT
from tests.fuzz.surroundings import Part

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, DType, dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

_PRODUCTS = (
    ("f32", "f32", "f32"), ("f32", "f32", "f32"), ("bf16", "bf16", "f32"), ("f64", "f64", "f64"),
    ("bf16", "bf16", "bf16"), ("f16", "f16", "f16"), ("s8", "s8", "s32"), ("u8", "s8", "s32"),
    ("s32", "s32", "s32"), ("c64", "c64", "c64"), ("c128", "c128", "c128"), ("s64", "s64", "s64"),
    ("f8e4m3fn", "f8e4m3fn", "f32"), ("bf16", "f32", "f32"), ("s4", "s4", "s32"),
    ("pred", "pred", "pred"),
)  # fmt: skip
_REAL = ("f32", "f32", "bf16", "f16", "f64", "s32", "u8", "s8", "s64", "u32", "s16", "pred")
_LENGTHS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 130)
_LONG = (*_LENGTHS, 200, 255, 256, 300, 511, 640, 1000)
_WORK = 1 << 24
"""Multiplications that a part may take: the evaluator makes them too."""


def _draw(choose: random.Random) -> np.random.Generator:
    return np.random.default_rng(choose.getrandbits(48))


def product(choose: random.Random) -> Part:
    """Return a product of matrices, batched or not, with any order of dimensions."""
    first, second, result = choose.choice(_PRODUCTS)
    m, n, k = (choose.choice(_LONG if choose.random() < 0.5 else _LENGTHS) for _ in range(3))
    m = choose.choice((m, m, 1))
    n = choose.choice((n, n, 1))
    batch = choose.choice((0, 0, 0, 1, 2, 5, 12))
    while m * n * k * max(1, batch) > _WORK:
        m, n, k = max(1, m // 2), max(1, n // 3), max(1, k // 2)
    return product_of(choose, (first, second, result), (batch, m, n, k))


def product_of(
    choose: random.Random, elements: tuple[str, str, str], sizes: tuple[int, int, int, int]
) -> Part:
    """Return a product of these types and sizes: batch, m, n, k, in any order of dimensions."""
    (first, second, result), (batch, m, n, k) = elements, sizes
    lhs, rhs = [("m", m), ("k", k)], [("k", k), ("n", n)]
    if batch:
        lhs, rhs = [("b", batch), *lhs], [("b", batch), *rhs]
    choose.shuffle(lhs)
    choose.shuffle(rhs)
    draw = _draw(choose)
    data = [
        small_integers(element, [size for _, size in dims], draw)
        for element, dims in ((first, lhs), (second, rhs))
    ]
    names = [name for name, _ in lhs], [name for name, _ in rhs]
    dims = [str(batch)] if batch else []
    build = build_one(
        "dot",
        shape=f"{result}[{','.join([*dims, str(m), str(n)])}]",
        lhs_batch_dims=_where(names[0], "b"),
        rhs_batch_dims=_where(names[1], "b"),
        lhs_contracting_dims=_where(names[0], "k"),
        rhs_contracting_dims=_where(names[1], "k"),
    )
    # Sums of 16-bit and narrower floats are rounded once, but wherever the evaluator rounds.
    narrow = result in ("bf16", "f16")
    return Part(data, _with_epilogue(build, choose), "ulps 1" if narrow else EXACT)


def _where(names: Sequence[str], name: str) -> tuple[int, ...]:
    return tuple(number for number, other in enumerate(names) if other == name)


def _with_epilogue(build: Any, choose: random.Random) -> Any:
    """Return what adds a bias, takes the positive part or negates after a contraction."""
    words = choose.sample(("bias", "relu", "negate"), choose.choice((0, 0, 1, 2)))

    def whole(b: Builder, given: Sequence[Instruction]) -> Instruction:
        made = build(b, given)
        element = made.shape.dtype
        for word in words:
            if word == "bias":
                number = b.constant(np.asarray(1).astype(element.numpy))
                made = b.add(made, b.broadcast_to(number, made.shape.dims))
            elif word == "negate" and (element.is_float or element.is_complex):
                made = b.negate(made)
            elif word == "relu" and not element.is_complex:
                made = b.maximum(made, b.full(0, made.shape))
        return made

    return whole


_LABELS = {
    1: ("b0f_0io->b0f", "bf0_oi0->bf0", "0bf_i0o->f0b"),
    2: ("b01f_01io->b01f", "b01f_01io->b01f", "bf01_oi01->bf01", "f01b_i01o->01bf"),
    3: ("b012f_012io->b012f", "bf012_oi012->bf012"),
}


def convolution(choose: random.Random) -> Part:
    """Return a convolution as networks have them, or a gradient of one, or an odd one."""
    rank = choose.choice((1, 2, 2, 2, 3))
    element = choose.choice(("f32", "f32", "f32", "bf16", "f16", "f64", "s32", "s8", "c64"))
    label = choose.choice(_LABELS[rank])
    groups = choose.choice((1, 1, 1, 2, 4, 8))
    batch_groups = choose.choice((1, 1, 1, 1, 2)) if groups == 1 else 1
    inputs = groups * choose.choice((1, 1, 2, 3, 4, 8, 16, 32))
    outputs = groups * batch_groups * choose.choice((1, 1, 2, 4, 5, 8, 16, 33, 64))
    batch = batch_groups * choose.choice((1, 1, 2, 3, 8))
    spatial = [choose.choice((1, 3, 6, 7, 8, 13, 14, 16, 28, 30)) for _ in range(rank)]
    window = tuple(_window(choose, size) for size in spatial)
    while (
        batch * math.prod(spatial) * outputs * inputs * math.prod(w.size for w in window) // groups
        > _WORK
    ):
        inputs, outputs = (
            max(groups, inputs // 2 // groups * groups),
            max(
                groups * batch_groups,
                outputs // 2 // (groups * batch_groups) * groups * batch_groups,
            ),
        )
        spatial = [max(1, size // 2) for size in spatial]
        batch = max(batch_groups, batch // 2 // batch_groups * batch_groups)
    sizes = {"b": batch, "f": inputs, "i": inputs // groups, "o": outputs}
    lhs_label, rest = label.split("_", 1)
    rhs_label = rest.split("->")[0]
    draw = _draw(choose)
    lhs = [sizes[c] if c in sizes else spatial[int(c)] for c in lhs_label]
    rhs = [sizes[c] if c in sizes else window[int(c)].size for c in rhs_label]
    build = build_one(
        "convolution",
        window=window,
        dim_labels=label,
        feature_group_count=groups,
        batch_group_count=batch_groups,
    )
    data = small_integers(element, lhs, draw), small_integers(element, rhs, draw)
    compare = "ulps 2 of largest" if dtype(element).is_float else EXACT
    return Part(data, _with_epilogue(build, choose), compare)


def layer(choose: random.Random) -> Part:
    """Return a 3x3 convolution of a network, with enough channels for Winograd's tiles."""
    inputs, outputs = (choose.choice((16, 32, 33, 48, 64)) for _ in range(2))
    spatial = [choose.choice((5, 8, 13, 14)) for _ in range(2)]
    batch = choose.choice((1, 1, 2, 3))
    same = WindowDimension(3, choose.choice((1, 1, 1, 2)), 1, 1)
    draw = _draw(choose)
    data = (
        small_integers("f32", (batch, *spatial, inputs), draw),
        small_integers("f32", (3, 3, inputs, outputs), draw),
    )
    build = build_one("convolution", window=(same, same), dim_labels="b01f_01io->b01f")
    return Part(data, _with_epilogue(build, choose), "ulps 8 of largest")


def filter_gradient(choose: random.Random) -> Part:
    """Return the gradient of a layer's filter: a convolution whose window is an image."""
    batch, reach = choose.choice((1, 2, 4, 8)), choose.choice((0, 1, 1, 2))
    inputs, outputs = (choose.choice((1, 3, 8, 16, 17, 32)) for _ in range(2))
    spatial = [choose.choice((4, 7, 8, 13, 14)) for _ in range(2)]
    stride = choose.choice((1, 1, 2))
    windows = tuple(
        WindowDimension(-(-size // stride), low=reach, high=reach, window_dilation=stride)
        for size in spatial
    )
    draw = _draw(choose)
    data = (
        small_integers("f32", (batch, *spatial, inputs), draw),
        small_integers("f32", (batch, *(w.size for w in windows), outputs), draw),
    )
    build = build_one("convolution", window=windows, dim_labels="f01b_i01o->01bf")
    return Part(data, build, "ulps 2 of largest")


def _window(choose: random.Random, size: int) -> WindowDimension:
    if choose.random() < 0.5:  # 3, 5, ... with padding that keeps the size
        reach = choose.choice((0, 1, 1, 1, 2, 3))
        return WindowDimension(2 * reach + 1, choose.choice((1, 1, 2)), reach, reach)
    window = choose.randint(1, max(1, min(size, 7)))
    if choose.random() < 0.1:
        window = size  # a gradient: the filter is as large as the image
    return WindowDimension(
        window,
        stride=choose.randint(1, 3),
        low=choose.randint(-1 if size > 2 * window else 0, 3),
        high=choose.randint(0, 3),
        base_dilation=choose.choice((1, 1, 1, 2, 3)),
        window_dilation=choose.choice((1, 1, 2)) if 2 * window <= size else 1,
        reversal=choose.random() < 0.2,
    )


def _dims(choose: random.Random, most: int) -> list[int]:
    """Return dimensions of an array, mostly one or two long ones."""
    dims = [choose.choice((*_LONG, 2000, 4099)) for _ in range(choose.randint(1, 3))]
    while math.prod(dims) > most:
        dims[choose.randrange(len(dims))] //= 2
        dims = [max(1, size) for size in dims]
    return dims


def sort(choose: random.Random) -> Part:
    """Return a sort of one array, or of keys with what belongs to them."""
    dims, element = _dims(choose, 1 << 15), choose.choice(_REAL)
    draw, dim = _draw(choose), choose.randrange(len(dims))
    few = choose.random() < 0.5  # many equal keys
    keys = (small_integers if few else values)(element, dims, draw)
    more = [
        np.arange(keys.size, dtype=np.int32).reshape(keys.shape),
        values(choose.choice(("bf16", "f32", "s64", "u8")), dims, draw),
    ][: choose.choice((0, 0, 1, 1, 2))]
    direction = choose.choice(("LT", "GT"))
    attributes: dict[str, Any] = {}
    if dtype(element).is_float and choose.random() < 0.5:
        attributes["type"] = "TOTALORDER"

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        inner = Builder("order")
        pairs = [
            inner.parameter(2 * n + side, Shape.array(operand.shape.dtype, ()))
            for n, operand in enumerate(given)
            for side in (0, 1)
        ]
        called = inner.build(inner.compare(*pairs[:2], direction=direction, **attributes))
        return b.sort(*given, dimensions=(dim,), is_stable=bool(more), to_apply=called)

    return Part([keys, *more], build)


def top_k(choose: random.Random) -> Part:
    """Return the greatest elements of rows."""
    dims, element = _dims(choose, 1 << 14), choose.choice(("f32", "f32", "s32", "bf16", "u8"))
    k = choose.randint(0, min(dims[-1], choose.choice((1, 3, 8, 40, 300))))
    data = small_integers(element, dims, _draw(choose))
    return Part([data], build_one("topk", k=k, largest=True))


def fold(choose: random.Random) -> Part:
    """Return a reduction over some dimensions of a large array."""
    dims, element = _dims(choose, 1 << 16), choose.choice((*_REAL, "c64"))
    places = tuple(sorted(choose.sample(range(len(dims)), choose.randint(1, len(dims)))))
    name, start = _reducer(choose, dtype(element))

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        first = b.constant(np.asarray(start).astype(given[0].shape.dtype.numpy))
        called = scalar_computation(name, element)
        return b.reduce(given[0], first, dimensions=places, to_apply=called)

    compare = EXACT if name != "add" or dtype(element).bits > 16 else "ulps 2 of largest"
    return Part([small_integers(element, dims, _draw(choose))], build, compare)


def _reducer(choose: random.Random, element: DType) -> tuple[str, int]:
    if element is PRED:
        return choose.choice((("and", 1), ("or", 0)))
    if element.is_complex:
        return "add", 0
    return choose.choice((("add", 0), ("add", 0), ("maximum", 0), ("minimum", 3)))


def scan(choose: random.Random) -> Part:
    """Return running or windowed sums and maxima."""
    dims, element = _dims(choose, 1 << 13), choose.choice(("f32", "s32", "f64", "s64", "u8"))
    dim = choose.randrange(len(dims))
    name, start = _reducer(choose, dtype(element))
    length = dims[dim]
    side = choose.random() < 0.5
    window = [WindowDimension(1)] * len(dims)
    window[dim] = WindowDimension(length, low=(length - 1) * side, high=(length - 1) * (not side))
    if choose.random() < 0.5:
        window = [_window(choose, size) for size in dims]

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        first = b.constant(np.asarray(start).astype(given[0].shape.dtype.numpy))
        called = scalar_computation(name, element)
        return b.reduce_window(given[0], first, window=tuple(window), to_apply=called)

    return Part([small_integers(element, dims, _draw(choose))], build)


_TRANSFORMS = (
    1, 2, 3, 4, 5, 8, 11, 13, 16, 26, 30, 49, 64, 97, 100, 128, 211, 240, 256, 509, 1009, 1024,
    2039, 2048, 4096, 6000, 8192, 10007, 1 << 14,
)  # fmt: skip


def transform(choose: random.Random) -> Part:
    """Return a Fourier transform of any kind and length."""
    count = choose.choice((1, 1, 1, 2, 3))
    lengths = tuple(
        choose.choice(_TRANSFORMS)
        if count == 1 else choose.choice((1, 2, 3, 4, 6, 7, 8, 12, 16, 32))
        for _ in range(count)
    )  # fmt: skip
    batch = choose.choice(((), (1,), (3,), (17,)))
    complex_, real = choose.choice((("c64", "f32"), ("c128", "f64")))
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    kind = choose.choice(("FFT", "IFFT", "RFFT", "IRFFT"))
    source, target, result = {
        "FFT": (complex_, complex_, lengths), "IFFT": (complex_, complex_, lengths),
        "RFFT": (real, complex_, half), "IRFFT": (complex_, real, lengths),
    }[kind]  # fmt: skip
    draw = _draw(choose)
    if kind == "IRFFT":
        axes = tuple(range(len(batch), len(batch) + len(lengths)))
        data = np.fft.rfftn(draw.normal(size=(*batch, *lengths)), axes=axes)
        data = data.astype(dtype(source).numpy)
    else:
        data = values(source, (*batch, *lengths), draw)
    shape = Shape.array(target, (*batch, *result))
    build = build_one("fft", shape=shape, fft_type=kind, fft_length=lengths)
    return Part([data], build, "ulps 512 of largest")


def segments(choose: random.Random) -> Part:
    """Return rows summed or taken by index, with indices that repeat and that lie outside."""
    rows, width = choose.choice(_LONG), choose.choice((1, 2, 3, 8, 16, 33, 64))
    count, element = choose.choice(_LONG), choose.choice(("f32", "s32", "bf16", "f64", "u8"))
    draw = _draw(choose)
    kind = choose.choice(("s32", "s64", "u32"))
    low = 0 if kind == "u32" else -2
    indices = draw.integers(low, rows + 2, (count, 1)).astype(dtype(kind).numpy)
    table = small_integers(element, (rows, width), draw)
    if choose.random() < 0.5:
        build = build_one(
            "gather", offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,),
            index_vector_dim=1, slice_sizes=(1, width),
        )  # fmt: skip
        return Part([table, indices], build)
    updates = small_integers(element, (count, width), draw)
    name = choose.choice(("add", "maximum", "add"))

    def scatter(b: Builder, given: Sequence[Instruction]) -> Instruction:
        return b.scatter(
            *given, update_window_dims=(1,), inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
            to_apply=scalar_computation(name, element),
        )  # fmt: skip

    # bf16 sums are rounded at every step, in whatever order.
    narrow = element in ("bf16",) and name == "add"
    return Part([table, indices, updates], scatter, "close 0.1" if narrow else EXACT)


def turn(choose: random.Random) -> Part:
    """Return a large array with its dimensions in another order."""
    dims = [choose.choice((1, 2, 3, 4, 8, 16, 33, 64, 100)) for _ in range(choose.randint(2, 5))]
    while math.prod(dims) > 1 << 16:
        dims[dims.index(max(dims))] //= 3
    order = tuple(choose.sample(range(len(dims)), len(dims)))
    data = small_integers(choose.choice((*_REAL, "c64", "c128")), dims, _draw(choose))
    return Part([data], build_one("transpose", dimensions=order))


def pooling_gradient(choose: random.Random) -> Part:
    """Return what each window's greatest element gets of the window's gradient."""
    sizes = [choose.choice((4, 7, 8, 13, 16)) for _ in range(2)]
    dims = (choose.randint(1, 3), *sizes, choose.choice((1, 3, 8, 17)))
    window = (
        WindowDimension(1),
        *(WindowDimension(choose.randint(1, 3), stride=choose.randint(1, 3)) for _ in sizes),
        WindowDimension(1),
    )
    element = choose.choice(("f32", "f64", "s32"))
    draw = _draw(choose)
    pooled = [(size - w.size) // w.stride + 1 for size, w in zip(dims, window, strict=True)]
    data = small_integers(element, dims, draw), small_integers(element, pooled, draw)

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        zero = b.constant(np.zeros((), given[0].shape.dtype.numpy))
        return b.select_and_scatter(
            *given, zero, window=window, select=_at_least(element),
            scatter=scalar_computation("add", element),
        )  # fmt: skip

    return Part(data, build)


def _at_least(element: str) -> Computation:
    builder = Builder("at_least")
    pair = [builder.parameter(number, f"{element}[]") for number in (0, 1)]
    return builder.build(builder.compare(*pair, direction="GE"))


def bits(choose: random.Random) -> Part:
    """Return random bits: exact, whatever runs them."""
    algorithm, words = choose.choice(
        (("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3), ("rng_default", 2))
    )
    element = choose.choice(("u32", "u64", "u8", "u16", "s32", "f32"))
    shape = Shape.array(element, tuple(_dims(choose, 1 << 12)))
    state: Array = _draw(choose).integers(0, 1 << 63, words).astype(np.uint64)

    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        whole = Shape.tuple((given[0].shape, shape))
        return b.rng_bit_generator(*given, shape=whole, algorithm=algorithm)

    return Part([state], build)


PARTS = (
    product, product, product, convolution, convolution, layer, filter_gradient, sort, sort, top_k,
    fold, fold, scan, transform, transform, segments, turn, pooling_gradient, bits,
)  # fmt: skip
