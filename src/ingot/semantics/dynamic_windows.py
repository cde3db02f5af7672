# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's windows over dimensions of dynamic size, as ordinary computations.

`DynamicConvolutionForward`, `DynamicConvolutionInputGrad`, `DynamicConvolutionKernelGrad`,
`DynamicReduceWindowSamePadding` and `DynamicSelectAndScatterSamePadding` are the custom calls that
TensorFlow writes where a window slides along a bounded dimension (`f32[<=8]`). The padding of such
a window (`PADDING_SAME`) depends on the actual size, and its `window` is the one for the bound.
Along those dimensions the array is taken at its bound, with the neutral value beyond its size, and
is shifted by the padding; the rest is an ordinary window without padding over a static array.
`meaning` returns that computation: the evaluator evaluates it and the expander replaces the call by
it.

Source: xla/service/dynamic_padder.cc (RewriteDynamicConvolution*, RewriteInputWithDynamicPadding),
dynamic_window_utils.cc, dynamic_dimension_inference.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32, greatest, least
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionLabels
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record, replace

Scalars = dict[int, Instruction]
"""An s32[] by the dimension of an array."""


def is_dynamic_window(op: Instruction) -> bool:
    """Whether a custom call is one of these."""
    return op.attributes.custom_call_target in _MEANINGS


def meaning(op: Instruction) -> Computation:
    """Return a computation of the call's operands that gives its result.

    Raises:
        UnsupportedError: a `select` that is no comparison, several arrays under one window.
    """
    build = Builder("dynamic_window", op.metadata)
    given = [build.parameter(n, operand.shape) for n, operand in enumerate(op.operands)]
    return build.build(_MEANINGS[op.attributes.custom_call_target](_Call(op, build), given))


@record
class _Call:
    """One call while it is rewritten to ordinary ops.

    Attributes:
        op: the custom call.
        build: the builder of its computation.
    """

    op: Instruction
    build: Builder

    def number(self, value: int) -> Instruction:
        return self.build.constant(value, S32)

    def is_same(self) -> bool:
        return self.op.extra.get("padding_type") == "PADDING_SAME"

    def output(
        self, size: Instruction, reach: int, stride: int, same: bool
    ) -> tuple[Instruction, Instruction]:
        """Return how many windows of a reach fit over a size, and the padding before them."""
        build, step = self.build, self.number(stride)
        used = self.number(stride - 1 if same else stride - reach)
        count = build.divide(build.add(size, used), step)
        if not same:
            return count, self.number(0)
        last = build.multiply(build.subtract(count, self.number(1)), step)
        needed = build.subtract(build.add(last, self.number(reach)), size)
        padding = build.maximum(needed, self.number(0))
        return count, build.divide(padding, self.number(2))

    def at_bound(
        self, value: Instruction, dimensions: Mapping[int, Instruction], neutral: Instruction
    ) -> Instruction:
        """Return an array at its bound along some dimensions, `neutral` beyond its sizes."""
        build = self.build
        for dim, size in dimensions.items():
            shape = _marked(value.shape, value.shape.bounded, leave=(dim,))
            bound = self.number(shape.static_dims[dim])
            whole = build.set_dimension_size(value, bound, dimensions=(dim,), shape=shape)
            indices = build.iota(shape=Shape.array(S32, shape.dims), iota_dimension=dim)
            inside = build.compare(
                indices, build.broadcast_to(size, shape.dims, ()), direction="LT"
            )
            behind = build.broadcast_to(neutral, shape.dims, ())
            value = build.select(inside, whole, behind, shape=shape)
        return value

    def shifted(
        self, value: Instruction, neutral: Instruction, window: Window, befores: Scalars
    ) -> Instruction:
        """Return an array with the padding of its windows before it, and room after it.

        Args:
            value: the array, static in the padded dimensions.
            neutral: the padding value.
            window: one per dimension of the array; its padding is the largest possible one.
            befores: the padding before the array, along each padded dimension.
        """
        build, dims = self.build, list(value.shape.static_dims)
        padding, padded = [(0, 0, 0)] * len(dims), list(dims)
        starts = [self.number(0)] * len(dims)
        for dim, before in befores.items():
            one = window[dim]
            spread = one.spread(dims[dim])
            padding[dim] = (one.extent, one.low + one.high, one.base_dilation - 1)
            padded[dim] = one.extent + spread + one.low + one.high
            dims[dim] = one.low + spread + one.high
            starts[dim] = build.subtract(self.number(one.extent), before)
        wide = build.pad(
            value, neutral, padding=tuple(padding), shape=value.shape.with_dims(tuple(padded))
        )
        shape = value.shape.with_dims(tuple(dims))
        return build.dynamic_slice(wide, *starts, dynamic_slice_sizes=tuple(dims), shape=shape)

    def of_sizes(self, value: Instruction, sizes: Scalars) -> Instruction:
        """Return a value with the sizes set that the call's shape declares dynamic."""
        for dim, size in sizes.items():
            if self.op.shape.bounded and self.op.shape.bounded[dim]:
                shape = _marked(value.shape, value.shape.bounded, mark=(dim,))
                value = self.build.set_dimension_size(value, size, dimensions=(dim,), shape=shape)
        return value

    def sizes(self, value: Instruction, dimensions: tuple[int, ...]) -> Scalars:
        """Return the sizes of an array along the dynamic ones of some dimensions."""
        flags = value.shape.bounded
        return {
            dim: self.build.get_dimension_size(value, dimensions=(dim,))
            for dim in dimensions
            if flags and flags[dim]
        }


def _marked(
    shape: Shape, flags: tuple[bool, ...], leave: tuple[int, ...] = (), mark: tuple[int, ...] = ()
) -> Shape:
    """Return a shape that is dynamic where `flags` says, or `mark`, but not where `leave` says."""
    found = [flag and dim not in leave for dim, flag in enumerate(flags or (False,) * shape.rank)]
    for dim in mark:
        found[dim] = True
    return replace(shape, bounded=tuple(found) if any(found) else ())


def _without_padding(window: Window, dimensions: Scalars) -> Window:
    return tuple(
        replace(one, low=0, high=0, base_dilation=1) if dim in dimensions else one
        for dim, one in enumerate(window)
    )


# ---- convolutions


def _forward(call: _Call, given: list[Instruction]) -> Instruction:
    """Windows of the kernel over an input of dynamic size."""
    value, kernel = given

    def output(number: int, size: Instruction) -> tuple[Instruction, Instruction]:
        one = call.op.attributes.window[number]
        return call.output(size, one.extent, one.stride, call.is_same())

    return _convolved(call, value, kernel, output)


def _input_gradient(call: _Call, given: list[Instruction]) -> Instruction:
    """Windows of the kernel over a gradient, dilated by the forward stride; the sizes are given."""
    sizes, value, kernel = given
    build, labels = call.build, ConvolutionLabels.parse(call.op.attributes.dim_labels)

    def output(number: int, size: Instruction) -> tuple[Instruction, Instruction]:
        one, dim = call.op.attributes.window[number], labels.lhs.index(str(number))
        part = build.slice(sizes, slice=((dim, dim + 1, 1),))
        wanted = build.reshape_to(part, ())
        _, before = call.output(wanted, one.extent, one.base_dilation, call.is_same())
        return wanted, build.subtract(call.number(one.extent - 1), before)

    return _convolved(call, value, kernel, output)


def _kernel_gradient(call: _Call, given: list[Instruction]) -> Instruction:
    """Windows of a gradient, dilated by the forward stride, over an input of dynamic size."""
    value, gradient = given
    labels = ConvolutionLabels.parse(call.op.attributes.dim_labels)
    zero = call.build.constant(0, gradient.shape.dtype)
    spatial = tuple(dim for dim, letter in enumerate(labels.rhs) if letter not in "io")
    kernel = call.at_bound(gradient, call.sizes(gradient, spatial), zero)

    def output(number: int, size: Instruction) -> tuple[Instruction, Instruction]:
        one = call.op.attributes.window[number]
        extent = call.op.shape.static_dims[labels.output.index(str(number))]
        reach = (extent - 1) * one.stride + 1
        return call.output(size, reach, one.window_dilation, call.is_same())

    return _convolved(call, value, kernel, output)


def _convolved(
    call: _Call,
    value: Instruction,
    kernel: Instruction,
    output: Callable[[int, Instruction], tuple[Instruction, Instruction]],
) -> Instruction:
    """Return the convolution of an array of dynamic size.

    `output` gives the size of the result along a spatial dimension, and the padding before it.
    """
    build, attributes = call.build, call.op.attributes
    labels = ConvolutionLabels.parse(attributes.dim_labels)
    count = len(attributes.window)
    dimensions = tuple(labels.lhs.index(str(number)) for number in range(count))
    sizes = call.sizes(value, dimensions)
    zero = build.constant(0, value.shape.dtype)
    found = {dim: output(dimensions.index(dim), size) for dim, size in sizes.items()}
    value = call.at_bound(value, sizes, zero)
    window: Window = attributes.window
    if call.is_same() and sizes:
        befores = {dim: before for dim, (_, before) in found.items()}
        by_dim = {dim: window[number] for number, dim in enumerate(dimensions)}
        one = WindowDimension(1)
        wide = tuple(by_dim.get(dim, one) for dim in range(value.shape.rank))
        value = call.shifted(value, zero, wide, befores)
        numbers = {dimensions.index(dim): before for dim, before in befores.items()}
        window = _without_padding(window, numbers)
    ends = {
        labels.output.index(str(dimensions.index(dim))): size for dim, (size, _) in found.items()
    }
    made = build.convolution(
        value,
        kernel,
        shape=_marked(call.op.shape, call.op.shape.bounded, leave=tuple(ends)),
        window=window,
        dim_labels=attributes.dim_labels,
        feature_group_count=attributes.feature_group_count,
        batch_group_count=attributes.batch_group_count,
    )
    return call.of_sizes(made, ends)


# ---- windows that are folded


def _reduce_window(call: _Call, given: list[Instruction]) -> Instruction:
    if len(given) != 2:
        raise _refused(call.op, "several arrays under one window of a dynamic size")
    value, start = given
    window: Window = call.op.attributes.window
    sizes = call.sizes(value, _wide(window))
    found = {p: call.output(n, window[p].extent, window[p].stride, True) for p, n in sizes.items()}
    befores = {dim: before for dim, (_, before) in found.items()}
    value = call.shifted(call.at_bound(value, sizes, start), start, window, befores)
    (folds,) = call.op.attributes.called_computations
    made = call.build.reduce_window(
        value,
        start,
        shape=_marked(call.op.shape, call.op.shape.bounded, leave=tuple(sizes)),
        window=_without_padding(window, befores),
        to_apply=folds,
    )
    return call.of_sizes(made, {dim: count for dim, (count, _) in found.items()})


def _select_and_scatter(call: _Call, given: list[Instruction]) -> Instruction:
    value, source, start = given
    build, window = call.build, call.op.attributes.window
    select, scatter = call.op.attributes.called_computations
    sizes = call.sizes(value, _wide(window))
    sources = call.sizes(source, tuple(sizes))
    befores = {
        p: call.output(sizes[p], window[p].extent, window[p].stride, True)[1] for p in sources
    }
    worst = build.constant(_worst(call.op, select), value.shape.dtype)
    value = call.shifted(call.at_bound(value, sizes, worst), worst, window, befores)
    made = build.select_and_scatter(
        value,
        call.at_bound(source, sources, start),
        start,
        window=_without_padding(window, befores),
        select=select,
        scatter=scatter,
    )
    # The padding is cut off again; room after it keeps the slice inside.
    room = {dim: window[dim].extent for dim in befores}
    dims = made.shape.static_dims
    made = build.pad(
        made,
        start,
        padding=tuple((0, room.get(dim, 0), 0) for dim in range(len(dims))),
        shape=made.shape.with_dims(tuple(n + room.get(p, 0) for p, n in enumerate(dims))),
    )
    starts = [befores.get(dim, call.number(0)) for dim in range(len(dims))]
    shape = _marked(call.op.shape, call.op.shape.bounded, leave=tuple(sizes))
    made = build.dynamic_slice(made, *starts, dynamic_slice_sizes=shape.dims, shape=shape)
    return call.of_sizes(made, sizes)


def _wide(window: Window) -> tuple[int, ...]:
    trivial = WindowDimension(1)
    return tuple(dim for dim, one in enumerate(window) if one != trivial)


def _worst(op: Instruction, select: Computation) -> float | int:
    """Return the number that a comparison never selects."""
    direction = getattr(select.root.attributes, "direction", "")
    element = op.shape.dtype
    if direction in ("GE", "GT"):
        return least(element)
    if direction in ("LE", "LT"):
        return greatest(element)
    raise _refused(op, "select-and-scatter of a dynamic size whose select is no comparison")


def _refused(op: Instruction, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"neither Ingot nor XLA supports {what}",
        instruction=repr(op),
        op_name=op.metadata.op_name,
        location=op.metadata.location,
        hint="give the array a static size, or one window per array",
    )


_MEANINGS: dict[str, Callable[[_Call, list[Instruction]], Instruction]] = {
    "DynamicConvolutionForward": _forward,
    "DynamicConvolutionInputGrad": _input_gradient,
    "DynamicConvolutionKernelGrad": _kernel_gradient,
    "DynamicReduceWindowSamePadding": _reduce_window,
    "DynamicSelectAndScatterSamePadding": _select_and_scatter,
}
"""Target -> what it computes."""
