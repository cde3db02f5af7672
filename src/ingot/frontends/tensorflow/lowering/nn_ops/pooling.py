# SPDX-License-Identifier: Apache-2.0
"""Pools and their gradients: windows folded, and gradients put back into the windows.

An average counts only the elements inside the image, as TensorFlow's does.
"""

from __future__ import annotations

from ingot.frontends.building.pooling import at_greatest, folded, spread_sums
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Sizes, Value
from ingot.frontends.tensorflow.lowering.indexing.gather import gather
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.frontends.tensorflow.lowering.nn_ops.windows import (
    check_windows,
    positive,
    unlike,
    whole_paddings,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension
from ingot.support.records import record


@record
class _Pool:
    """The window of one pooling node, over every dimension of its image."""

    window: Window

    @staticmethod
    def of(op: Op, image: Sizes, operands: int | None = None) -> _Pool:
        """Read attributes; `operands`: the first of the two operands that say size and stride."""
        if operands is None:
            sizes, strides = (op.attribute(name) for name in ("ksize", "strides"))
        else:
            sizes, strides = (op.integers(operands + n, "window") for n in range(2))
        sizes, strides = positive(op, "ksize", sizes), positive(op, "strides", strides)
        if sizes[0] != 1 or strides[0] != 1:
            raise op.error("Pooling is not yet supported on the batch dimension.")
        pads = whole_paddings(op, image, sizes, strides)
        return _Pool(
            tuple(
                WindowDimension(size, stride, *pad)
                for size, stride, pad in zip(sizes, strides, pads, strict=True)
            )
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimensions that are pooled."""
        return tuple(axis for axis, one in enumerate(self.window) if one != WindowDimension(1))

    def checked(self, op: Op, image: Sizes) -> Window:
        """Return the window, which must fit on an image of these sizes."""
        sizes, strides = (
            [getattr(one, name) for one in self.window] for name in ("size", "stride")
        )
        check_windows(op, image, sizes, strides, [(one.low, one.high) for one in self.window])
        return self.window

    def counts(self, image: Sizes) -> Sizes:
        """Return how many windows lie on an image of these sizes, by dimension."""
        return tuple(one.count(size) for one, size in zip(self.window, image, strict=True))

    def check(self, op: Op, number: int, name: str, wanted: Sizes) -> None:
        """Refuse operand `number` where its sizes are known not to be the wanted ones."""
        given = op.dims(number)
        if unlike(given, wanted):
            shapes = (",".join(map(str, dims)) for dims in (wanted, given))
            raise op.error("Expected {} shape to be [{}], but got [{}]".format(name, *shapes))


def _counts(op: Op, pool: _Pool, image: Sizes, element: DType) -> Instruction:
    """Return how many elements of the image each window holds."""
    dims = tuple(size if axis in pool.axes else 1 for axis, size in enumerate(image))
    return folded(op.b, "add", op.b.like(1, Shape.array(element, dims)), pool.window)


def _max_pool(op: Op) -> Value:
    x = op.tensor(0)
    pool = _Pool.of(op, x.shape.dims, 1 if len(op) > 1 else None)
    return folded(op.b, "maximum", x, pool.checked(op, x.shape.dims))


def _average_pool(op: Op) -> Value:
    x = op.tensor(0)
    pool = _Pool.of(op, x.shape.dims)
    total = folded(op.b, "add", x, pool.checked(op, x.shape.dims))
    counts = _counts(op, pool, x.shape.dims, x.shape.dtype)
    return op.b.divide(total, op.b.spread(counts, total.shape.dims))


def _not_less(op: Op, element: DType) -> Computation:
    """Return the scalar computation that keeps the first of the greatest elements.

    As in TensorFlow's kernel, NaN is kept where it comes first and is not taken later.
    """
    key = ("not_less", element.name)
    reducers = op.b.reducers
    if key not in reducers:
        b = Builder(f"not_less_{element.name}")
        left, right = (b.parameter(n, Shape.array(element, ())) for n in range(2))
        reducers[key] = b.build(b.not_(b.compare(left, right, direction="LT")))
    return reducers[key]


def _max_pool_gradient(op: Op) -> Value:
    """Original input, original output, gradient."""
    x, gradient = op.tensor(0), op.tensor(2)
    element = x.shape.dtype
    pool = _Pool.of(op, x.shape.dims, 3 if len(op) > 3 else None)
    windows = pool.counts(x.shape.dims)
    pool.check(op, 1, "orig_output", windows)
    pool.check(op, 2, "grad", windows)
    for axis in pool.axes:
        op.fixed(x.shape.dims[axis], "size of the image")
    return op.b.emit(
        "select-and-scatter",
        x,
        gradient,
        op.b.constant(0, element),
        window=pool.window,
        select=_not_less(op, element),
        scatter=op.b.reducer("add", element),
    )


def _average_pool_gradient(op: Op) -> Value:
    """Input sizes, gradient: each window's share, summed over the windows of an element.

    A window's share is its gradient times a reciprocal, as in TensorFlow's kernel.
    """
    b = op.b
    image, gradient = op.sizes(0, "input sizes"), op.tensor(1)
    pool = _Pool.of(op, image)
    pool.check(op, 1, "grad", pool.counts(image))
    if 0 in (*image, *gradient.shape.dims):
        return b.zeros(gradient.shape.with_dims(image))
    counts = _counts(op, pool, image, gradient.shape.dtype)
    parts = b.divide(b.like(1, counts.shape), counts)
    share = b.binary("multiply", gradient, b.spread(parts, gradient.shape.dims))
    return spread_sums(
        b, share, image, pool.window, lambda size: op.fixed(size, "size of the image")
    )


def _max_pool_second_gradient(op: Op) -> Value:
    """Original input, original output, gradient (like the input): taken where the greatest was."""
    x, gradient = op.tensor(0), op.tensor(2)
    pool = _Pool.of(op, x.shape.dims, 3 if len(op) > 3 else None)
    pool.check(op, 1, "orig_output", pool.counts(x.shape.dims))
    pool.check(op, 2, "grad", x.shape.dims)
    return at_greatest(op.b, x, gradient, 0, pool.window)[1]


def _max_pool_with_argmax(op: Op) -> tuple[Value, ...]:
    """The greatest elements and their flat indices, in each image or in the whole batch."""
    b, x = op.b, op.tensor(0)
    dims = x.shape.dims
    numbered = dims if op.attribute("include_batch_in_index", False) else (1, *dims[1:])
    count = dim_math.product(numbered)
    index = b.reshape_to(b.iota_of(S64, (count,), 0), numbered)
    pool = _Pool.of(op, dims)
    if len(dims) - 1 in pool.axes:
        raise op.error("TensorFlow's kernel looks at each channel alone, whatever the window says")
    window = pool.checked(op, dims)
    values, indices = at_greatest(op.b, x, b.spread(index, dims), -1, window)
    return values, b.convert_to(indices, op.result(1))


def _flat_index(op: Op) -> Instruction:
    """Return operand 2, an argmax, as indices into the flattened images (operand 0)."""
    b, index = op.b, op.b.convert_to(op.tensor(2), S64)
    if op.attribute("include_batch_in_index", False):
        return index
    image = b.scalar(dim_math.product(op.dims(0)[1:]), S64)
    return b.add(index, b.binary("multiply", b.iota_of(S64, index.shape.dims, 0), image))


def _argmax_gradient(op: Op) -> Value:
    """input, gradient, argmax: each gradient is added where the index says."""
    b, x, gradient = op.b, op.tensor(0), op.tensor(1)
    parts = (_flat_index(op), gradient)
    flat = (b.reshape_to(part, (part.shape.size,)) for part in parts)
    zeros = b.zeros(x.shape.with_dims((x.shape.size,)))
    return b.reshape_to(scatter_rows(op, "add", zeros, *flat), x.shape.dims)


def _argmax_second_gradient(op: Op) -> Value:
    """input, gradient (like the input), argmax: what the index points to."""
    gradient = op.tensor(1)
    flat = op.b.reshape_to(gradient, (gradient.shape.size,))
    return gather(op, flat, _flat_index(op), 0, 0)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("AvgPool", "AvgPool3D"), _average_pool),
    **dict.fromkeys(("AvgPoolGrad", "AvgPool3DGrad"), _average_pool_gradient),
    **dict.fromkeys(("MaxPool", "MaxPool3D", "MaxPoolV2"), _max_pool),
    **dict.fromkeys(("MaxPoolGrad", "MaxPool3DGrad", "MaxPoolGradV2"), _max_pool_gradient),
    **dict.fromkeys(
        ("MaxPoolGradGrad", "MaxPool3DGradGrad", "MaxPoolGradGradV2"), _max_pool_second_gradient
    ),
    "MaxPoolGradGradWithArgmax": _argmax_second_gradient,
    "MaxPoolGradWithArgmax": _argmax_gradient,
    "MaxPoolWithArgmax": _max_pool_with_argmax,
}
