# SPDX-License-Identifier: Apache-2.0
"""Random uses of the structured ops: convolution, windows, sort, scatter, batched products.

`random_modules.Maker` grows with these too when it is asked for structured ops. Each function takes
the maker, picks operands of its pool that fit, and returns a new value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, PRED, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

if TYPE_CHECKING:
    from tests.support.random_modules import Maker

_EXACT = ("parameter", "constant", "iota")


def _window(maker: Maker, size: int | Dim, *, dilation: bool = True) -> WindowDimension:
    """Return a random window over a dimension; a symbolic one is not looked at through windows."""
    if not isinstance(size, int) or size == 0 or maker.choose.random() < 0.3:
        return WindowDimension(1)
    choose = maker.choose
    window = choose.randint(1, min(size, 4))
    return WindowDimension(
        window,
        stride=choose.randint(1, 2),
        low=choose.randint(0, window - 1),
        high=choose.randint(0, window - 1),
        base_dilation=choose.choice((1, 1, 2)) if dilation else 1,
        window_dilation=choose.choice((1, 1, 2)) if dilation and 2 * window <= size else 1,
    )


def convolution(maker: Maker) -> Instruction:
    """Return a convolution over the middle dimension, with strides, padding and dilation."""
    operand = maker._any(
        lambda s: s.dtype is F32 and s.rank == 3 and all(isinstance(d, int) and d for d in s.dims)
    )
    _, spatial, features = operand.shape.static_dims
    window = _window(maker, spatial)
    kernel = maker._constant_of(
        Shape.array(F32, (window.size, features, maker.choose.randint(1, 5)))
    )
    labels = maker.choose.choice(("b0f_0io->b0f", "b0f_0io->bf0"))
    return maker.builder.convolution(operand, kernel, window=(window,), dim_labels=labels)


def convolution_2d(maker: Maker) -> Instruction:
    """Return a convolution of a value as one image of one feature."""
    operand = maker._any(
        lambda s: s.dtype is F32 and s.rank == 2 and all(isinstance(d, int) and d for d in s.dims)
    )
    height, width = operand.shape.static_dims
    image = maker.builder.reshape(operand, shape=Shape.array(F32, (1, height, width, 1)))
    windows = (_window(maker, height), _window(maker, width))
    dims = (*(w.size for w in windows), 1, 2)
    kernel = maker._constant_of(Shape.array(F32, dims))
    return maker.builder.convolution(image, kernel, window=windows, dim_labels="b01f_01io->b01f")


def reduce_window(maker: Maker) -> Instruction:
    """Return sums or extrema of windows."""
    operand = maker._any(lambda s: s.rank > 0 and s.dtype is not PRED)
    element = operand.shape.dtype
    window = tuple(_window(maker, size) for size in operand.shape.dims)
    name = maker.choose.choice(("add", "maximum", "minimum"))
    start = maker.builder.constant(_start(name, element), element)
    called = scalar_computation(name, element)
    return maker.builder.reduce_window(operand, start, window=window, to_apply=called)


def cumulative(maker: Maker) -> Instruction:
    """Return sums or extrema of all prefixes or suffixes along a dimension."""
    operand = maker._any(lambda s: any(isinstance(d, int) and d for d in s.dims) and _sums(s))
    dims, element = operand.shape.dims, operand.shape.dtype
    place = maker.choose.choice([i for i, d in enumerate(dims) if isinstance(d, int) and d])
    size = operand.shape.dims[place]
    assert isinstance(size, int)
    before = maker.choose.random() < 0.5
    whole = WindowDimension(size, low=size - 1 if before else 0, high=0 if before else size - 1)
    window = tuple(whole if i == place else WindowDimension(1) for i in range(len(dims)))
    name = maker.choose.choice(("add", "maximum"))
    start = maker.builder.constant(_start(name, element), element)
    called = scalar_computation(name, element)
    return maker.builder.reduce_window(operand, start, window=window, to_apply=called)


def _sums(shape: Shape) -> bool:
    return shape.dtype is not PRED


def _start(name: str, element: DType) -> int:
    lowest = -100 if element.is_float or element.is_signed else 0
    return {"add": 0, "maximum": lowest, "minimum": 100}[name]


def sort(maker: Maker) -> Instruction:
    """Return a value sorted along a dimension."""
    operand = maker._any(lambda s: s.rank > 0)
    called = _comparator(maker.choose.choice(("LT", "GT")), operand.shape.dtype)
    place = maker._place(operand.shape)
    return maker.builder.sort(operand, dimensions=(place,), is_stable=True, to_apply=called)


def sort_pairs(maker: Maker) -> Instruction:
    """Return a value sorted by keys that no rounding error can reorder."""
    operand = maker._any(lambda s: s.rank > 0)
    exact = [
        value
        for value in maker.pool
        if value.shape.dims == operand.shape.dims
        and (value.opcode in _EXACT or not value.shape.dtype.is_float)
    ]
    key = maker.choose.choice(exact) if exact else maker._constant_of(operand.shape)
    called = _comparator("LT", key.shape.dtype, operand.shape.dtype)
    place = maker._place(operand.shape)
    both = maker.builder.sort(key, operand, dimensions=(place,), is_stable=True, to_apply=called)
    return maker.builder.get_tuple_element(both, index=1)


def _comparator(direction: str, *elements: DType) -> Computation:
    inner = Builder("order")
    values = [
        inner.parameter(n, Shape.array(elements[n // 2], ())) for n in range(2 * len(elements))
    ]
    # NaN must have its place, or the order of the others is not defined.
    total = "TOTALORDER" if elements[0].is_float else ""
    return inner.build(inner.compare(values[0], values[1], direction=direction, type=total))


def scatter(maker: Maker) -> Instruction:
    """Return rows added, multiplied or maximized into a value; some are out of bounds."""
    operand = maker._any(lambda s: s.rank > 0 and isinstance(s.dims[0], int) and s.dims[0] > 0)
    dims, element = operand.shape.dims, operand.shape.dtype
    count = maker.choose.choice((0, 1, 3, 5))
    indices = maker._constant_of(Shape.array(S32, (count,)))
    updates = maker._constant_of(operand.shape.with_dims((count, *dims[1:])))
    names = ("and", "or") if element is PRED else ("add", "maximum", "minimum")
    return maker.builder.scatter(
        operand,
        indices,
        updates,
        update_window_dims=tuple(range(1, len(dims))),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        to_apply=scalar_computation(maker.choose.choice(names), element),
    )


def batched_dot(maker: Maker) -> Instruction:
    """Return a product of matrices of a batch."""
    lhs = maker._any(lambda s: s.dtype is F32 and s.rank == 3 and s.is_static)
    batch, rows, depth = lhs.shape.static_dims
    assert rows >= 0
    rhs = maker._constant_of(Shape.array(F32, (batch, maker.choose.randint(1, 5), depth)))
    return maker.builder.dot(
        lhs,
        rhs,
        lhs_batch_dims=(0,),
        rhs_batch_dims=(0,),
        lhs_contracting_dims=(2,),
        rhs_contracting_dims=(2,),
    )


def dot_of_values(maker: Maker) -> Instruction:
    """Return a product of two values of the pool, contracted along a dimension of one size."""
    lhs = maker._any(lambda s: s.dtype is F32 and 0 < s.rank <= 2)
    place = maker._place(lhs.shape)
    size = lhs.shape.dims[place]
    fitting = [
        (value, number)
        for value in maker.pool
        if value.shape.dtype is F32 and value.shape.rank <= 2
        for number, other in enumerate(value.shape.dims)
        if other == size
    ]
    if not fitting:
        return lhs
    rhs, number = maker.choose.choice(fitting)
    return maker.builder.dot(
        lhs, rhs, lhs_contracting_dims=(place,), rhs_contracting_dims=(number,)
    )


def arg_maximum(maker: Maker) -> Instruction:
    """Return the greatest numbers and their places, by one reduction of two operands."""
    operand = maker._any(lambda s: s.rank > 0 and s.dtype is S32)
    b, place = maker.builder, maker._place(operand.shape)
    numbers = b.iota(shape=operand.shape, iota_dimension=place)
    inner = Builder("argmax")
    x, i, y, j = (inner.parameter(n, "s32[]") for n in range(4))
    greater = inner.compare(x, y, direction="GT")
    first = inner.and_(inner.compare(x, y, direction="EQ"), inner.compare(i, j, direction="LT"))
    called = inner.build(
        inner.tuple(inner.maximum(x, y), inner.select(inner.or_(greater, first), i, j))
    )
    starts = [b.constant(np.int32(-1000)), b.constant(np.int32(1 << 20))]
    both = b.reduce(operand, numbers, *starts, dimensions=(place,), to_apply=called)
    return b.get_tuple_element(both, index=maker.choose.randint(0, 1))


def computed_slice(maker: Maker) -> Instruction:
    """Return a dynamic slice or update at a place that the program computes."""
    b = maker.builder
    operand = maker._any(lambda s: 0 < s.rank <= 2)
    whole = maker._any(lambda s: s.dtype is S32 and s.rank > 0)
    called = scalar_computation("maximum", S32)
    start = b.reduce(
        whole,
        b.constant(np.int32(-5)),
        dimensions=tuple(range(whole.shape.rank)),
        to_apply=called,
    )
    sizes = maker._window(operand.shape)
    starts = [start for _ in sizes]
    if maker.choose.random() < 0.5:
        return b.dynamic_slice(operand, *starts, dynamic_slice_sizes=sizes)
    update = maker._constant_of(operand.shape.with_dims(sizes))
    return b.dynamic_update_slice(operand, update, *starts)


STRUCTURED: tuple[Callable[[Maker], Instruction], ...] = (
    convolution, convolution_2d, reduce_window, cumulative, sort, sort_pairs, scatter, batched_dot,
    dot_of_values, arg_maximum, computed_slice,
)  # fmt: skip
