"""Pools and their gradients: windows folded, and gradients put back into the windows.

An average counts only the elements inside the image, as TensorFlow's does.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.tensors import neutral
from ingot.frontends.tensorflow.lowering.values import Sizes, Value
from ingot.frontends.tensorflow.lowering.windows import Layout, over_all, paddings
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension


@dataclass(frozen=True, slots=True)
class _Pool:
    """The numbers of one pooling node."""

    layout: Layout
    spatial: tuple[WindowDimension, ...]

    @staticmethod
    def of(op: Op, image: Sizes) -> _Pool:
        layout = Layout.of(op, len(image))
        kernel = layout.pick(op.attribute("ksize"))
        strides = layout.pick(op.attribute("strides"))
        pads = paddings(op, layout, layout.sizes(image), kernel, strides, (1,) * len(kernel))
        spatial = tuple(
            WindowDimension(size, stride, *pad)
            for size, stride, pad in zip(kernel, strides, pads, strict=True)
        )
        return _Pool(layout, spatial)

    @property
    def window(self) -> Window:
        """The window over every dimension."""
        return over_all(self.layout, self.spatial)


def _folded(op: Op, opcode: str, x: Instruction, window: Window) -> Instruction:
    element = x.shape.dtype
    start = op.b.constant(neutral(opcode, element), element)
    reducer = op.b.program.reducer(opcode, element)
    return op.b.emit("reduce-window", x, start, window=window, to_apply=reducer)


def _counts(op: Op, pool: _Pool, image: Sizes, element: DType) -> Instruction:
    """Return how many elements of the image each window holds."""
    dims = tuple(size if place in pool.layout.spatial else 1 for place, size in enumerate(image))
    return _folded(op, "add", op.b.like(1, Shape.array(element, dims)), pool.window)


def _max_pool(op: Op) -> Value:
    x = op.tensor(0)
    return _folded(op, "maximum", x, _Pool.of(op, x.shape.dims).window)


def _average_pool(op: Op) -> Value:
    x = op.tensor(0)
    pool = _Pool.of(op, x.shape.dims)
    total = _folded(op, "add", x, pool.window)
    counts = _counts(op, pool, x.shape.dims, x.shape.dtype)
    return op.b.divide(total, op.b.spread(counts, total.shape.dims))


def _at_least(op: Op, element: DType) -> Computation:
    """Return the scalar computation that keeps the first of the greatest elements."""
    key = ("at_least", element.name)
    reducers = op.b.program.reducers
    if key not in reducers:
        b = Builder(f"at_least_{element.name}")
        left, right = (b.parameter(n, Shape.array(element, ())) for n in range(2))
        reducers[key] = b.build(b.compare(left, right, direction="GE"))
    return reducers[key]


def _max_pool_gradient(op: Op) -> Value:
    """Original input, original output, gradient."""
    x, gradient = op.tensor(0), op.tensor(2)
    element = x.shape.dtype
    return op.b.emit(
        "select-and-scatter",
        x,
        gradient,
        op.b.constant(0, element),
        window=_Pool.of(op, x.shape.dims).window,
        select=_at_least(op, element),
        scatter=op.b.program.reducer("add", element),
    )


def _average_pool_gradient(op: Op) -> Value:
    """Input sizes, gradient: each window's share, summed over the windows of an element."""
    b = op.b
    image, gradient = op.sizes(0, "input sizes"), op.tensor(1)
    pool = _Pool.of(op, image)
    counts = _counts(op, pool, image, gradient.shape.dtype)
    share = b.divide(gradient, b.spread(counts, gradient.shape.dims))
    spatial: list[WindowDimension] = []
    for place, one in zip(pool.layout.spatial, pool.spatial, strict=True):
        low = one.size - 1 - one.low
        spread = (gradient.shape.dims[place] - 1) * one.stride + 1
        high = image[place] + one.size - 1 - low - spread
        if not isinstance(high, int):
            raise op.error("the sizes of the image must be known at compile time")
        spatial.append(WindowDimension(one.size, 1, low, high, one.stride))
    return _folded(op, "add", share, over_all(pool.layout, spatial))


def _operand_window(op: Op) -> Value:
    raise op.error(f"{op.node.op} takes its window as tensors, which has no lowering")


RULES: dict[str, Rule] = {
    **dict.fromkeys(("AvgPool", "AvgPool3D"), _average_pool),
    **dict.fromkeys(("AvgPoolGrad", "AvgPool3DGrad"), _average_pool_gradient),
    **dict.fromkeys(("MaxPool", "MaxPool3D"), _max_pool),
    **dict.fromkeys(("MaxPoolGrad", "MaxPool3DGrad"), _max_pool_gradient),
    **dict.fromkeys(("MaxPoolV2", "MaxPoolGradV2"), _operand_window),
}
