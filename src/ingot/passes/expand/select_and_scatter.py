# SPDX-License-Identifier: Apache-2.0
"""`select-and-scatter` (the gradient of max pooling) without a scatter.

A windowed reduction finds where in its window the chosen element lies. Then every element of the
result looks at the windows that hold it and takes the sources of those that chose it: no two
threads write one element, and the order of sums is that of the windows.

The last window that begins at an element or before it is found by a broadcast over the stride, the
windows before that by a `pad`. Where very many windows hold an element, and for dilated operands,
it becomes a `scatter` to the chosen elements.

Source: the meaning is XLA's (xla/service/select_and_scatter_expander.cc); gathering is our own.
"""

from __future__ import annotations

from itertools import product
from math import prod

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.dim import product as product_of
from ingot.hlo.dtype import S32, S64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.reduction import SelectAndScatterAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension
from ingot.support.records import record

MAX_HOLDERS = 32
"""Windows that hold an element beyond which pads cost more than a scatter."""

MAX_ELEMENTS = 32
"""Elements for each window beyond which a scatter costs less: 0.5 to 0.95 of it for 7x7 apart."""

_WHOLE = WindowDimension(1)


@expander("select-and-scatter-expander", "select-and-scatter")
def select_and_scatter_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `select-and-scatter` into windowed reductions and elementwise ops."""
    return _Expansion.of(op, build).result()


@record
class _Expansion:
    """One op being rewritten: its parts, and numbers that identify the elements of a window."""

    op: Instruction
    build: Builder
    window: Window
    dims: tuple[int | Dim, ...]
    counts: tuple[int | Dim, ...]

    @staticmethod
    def of(op: Instruction, build: Builder) -> _Expansion:
        given = op.as_(SelectAndScatterAttributes)
        operand, source, _ = op.operands
        return _Expansion(op, build, given.window, operand.shape.dims, source.shape.dims)

    def result(self) -> Instruction:
        start = self.build.broadcast_to(self.op.operands[2], self.dims)
        if 0 in self.counts or 0 in self.dims:
            return start
        if (
            any(one.base_dilation != 1 for one in self.window)
            or prod(self._holders()) > MAX_HOLDERS
            or prod(one.stride for one in self.window) > MAX_ELEMENTS
        ):
            return self._scattered(start)
        numbers = self._numbers(self._windowed())
        chosen, source = self._chosen(numbers), self.op.operands[1]
        nowhere = self.build.constant(-1, chosen.shape.dtype)
        zero = self.build.constant(0, source.shape.dtype)
        total = start
        for back in reversed(list(product(*map(range, self._holders())))):
            here = self._spread(chosen, back, nowhere)
            total = self._joined(total, here, numbers, self._spread(source, back, zero))
        return total

    def _holders(self) -> tuple[int, ...]:
        """Return how many windows may hold an element, along each dimension."""
        return tuple(ceil_div(one.extent, one.stride) for one in self.window)

    def _windowed(self) -> tuple[int, ...]:
        """Return the dimensions along which the window moves at all."""
        return tuple(dim for dim, one in enumerate(self.window) if one != _WHOLE)

    def _numbers(self, dimensions: tuple[int, ...]) -> Instruction:
        """Return an array of the operand's shape that numbers the elements along `dimensions`."""
        sizes = tuple(self.dims[dim] for dim in dimensions)
        count = product_of(sizes)
        element = S32 if isinstance(count, int) and count < 1 << 31 else S64
        flat = self.build.iota(shape=Shape.array(element, (count,)), iota_dimension=0)
        return self.build.broadcast_to(self.build.reshape_to(flat, sizes), self.dims, dimensions)

    def _chosen(self, numbers: Instruction) -> Instruction:
        """Return the number of the element that each window chose; -1 for none."""
        build, element = self.build, numbers.shape.dtype
        operand, _, start = self.op.operands
        reducer = self._chooser(element)
        nowhere = build.constant(-1, element)
        made = build.emit(
            "reduce-window", operand, numbers, start, nowhere, window=self.window, to_apply=reducer
        )
        return build.element_of(made, 1)

    def _chooser(self, element: DType) -> Computation:
        """Return the computation that returns (value, number) of the chosen one of two elements."""
        given = self.op.as_(SelectAndScatterAttributes)
        value, number = Shape.array(self.op.shape.dtype, ()), Shape.array(element, ())
        b = Builder("choose")
        selected, at, other, other_at = (
            b.parameter(n, shape) for n, shape in enumerate((value, number, value, number))
        )
        keep = b.call(selected, other, to_apply=given.select, shape=given.select.root.shape)
        is_real = b.compare(other_at, 0, direction="GE")
        is_first = b.compare(at, 0, direction="LT")
        takes = b.and_(is_real, b.or_(is_first, b.not_(keep)))
        results = (b.select(takes, other, selected), b.select(takes, other_at, at))
        module = self.op.computation.module
        assert module is not None, "passes see computations of a module"
        return module.take(b.build(b.tuple(*results)))

    def _joined(
        self, total: Instruction, chosen: Instruction, numbers: Instruction, source: Instruction
    ) -> Instruction:
        """Return `total` with `source` joined in where `chosen` is the element itself."""
        given = self.op.as_(SelectAndScatterAttributes)
        build = self.build
        joined = build.map(
            total, source, dimensions=tuple(range(len(self.dims))), to_apply=given.scatter
        )
        here = build.compare(chosen, numbers, direction="EQ")
        return build.select(here, joined, total)

    # ---- windows beside elements

    def _spread(
        self, value: Instruction, back: tuple[int, ...], filler: Instruction
    ) -> Instruction:
        """Return an array of the operand's shape with a value of one window for each element.

        Of the windows that begin at the element or before it, it is the one that begins `back`
        windows before the last; `filler` where there is none.
        """
        build = self.build
        padding: list[tuple[int, int, int]] = []
        starts: list[int] = []
        repeats: list[int] = []
        for number, one in enumerate(self.window):
            skipped, start = divmod(one.low, one.stride)
            low = back[number] - skipped
            high = _rounded_up(self.dims[number] + start, one.stride) - low - self.counts[number]
            assert isinstance(high, int), "windows move along dimensions of known sizes"
            padding.append((low, high, 0))
            starts.append(start)
            repeats.append(one.stride)
        if any(item != (0, 0, 0) for item in padding):
            value = build.pad(value, filler, padding=tuple(padding))
        return self._cut(self._repeated(value, repeats), starts)

    def _repeated(self, value: Instruction, times: list[int]) -> Instruction:
        """Return the array with each element as often as it says, along each dimension."""
        inner: list[int | Dim] = []
        whole: list[int | Dim] = []
        axes: list[int] = []
        for size, count in zip(value.shape.dims, times, strict=True):
            axes.append(len(inner))
            inner.extend((size, count) if count > 1 else (size,))
            whole.append(size * count)
        if tuple(whole) == value.shape.dims:
            return value
        build = self.build
        return build.reshape_to(build.broadcast_to(value, tuple(inner), tuple(axes)), tuple(whole))

    def _cut(self, value: Instruction, starts: list[int]) -> Instruction:
        """Return as much of the array as the operand has, from these indices on."""
        if value.shape.dims == self.dims:
            return value
        padding: list[tuple[int, int, int]] = []
        for start, size, whole in zip(starts, self.dims, value.shape.dims, strict=True):
            high = size - whole + start
            assert isinstance(high, int), "windows move along dimensions of known sizes"
            padding.append((-start, high, 0))
        return self.build.pad(value, 0, padding=tuple(padding))

    # ---- in general

    def _scattered(self, start: Instruction) -> Instruction:
        """Return the sources scattered to the chosen elements; an index of -1 is dropped."""
        build = self.build
        given = self.op.as_(SelectAndScatterAttributes)
        chosen = self._chosen(self._numbers(tuple(range(len(self.dims)))))
        flat = build.reshape_to(start, (start.shape.size,))
        count = chosen.shape.size
        made = build.scatter(
            flat,
            build.reshape_to(chosen, (count,)),
            build.reshape_to(self.op.operands[1], (count,)),
            update_window_dims=(),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            to_apply=given.scatter,
        )
        return build.reshape_to(made, self.dims)


def _rounded_up(size: int | Dim, step: int) -> int | Dim:
    """Return how many steps reach over a size."""
    return size if step == 1 else ceil_div(size, step)
