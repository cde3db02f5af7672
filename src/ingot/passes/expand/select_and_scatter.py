# SPDX-License-Identifier: Apache-2.0
"""`select-and-scatter` (the gradient of max pooling) without a scatter.

A windowed reduction finds where in its window the chosen element lies. Then every element of the
result looks at the windows that hold it and takes the sources of those that chose it: no two
threads write one element, and the order of sums is that of the windows.

Where windows do not overlap an element has one window, found by a broadcast; else there is one
`pad` per element of the window. Windows of very many elements, and dilated operands, become a
`scatter` to the chosen elements.

Source: the meaning is XLA's (xla/service/select_and_scatter_expander.cc); gathering is our own.
"""

from __future__ import annotations

from itertools import product
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S32, S64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.reduction import SelectAndScatterAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension, window_elements
from ingot.support.records import record

MAX_WINDOW_SIZE = 32
"""Elements of a window beyond which pads cost more than a scatter."""

_WHOLE = WindowDimension(1)


@record
class SelectAndScatterExpander(Pass):
    """Rewrites `select-and-scatter` into windowed reductions and elementwise ops."""

    name: ClassVar[str] = "select-and-scatter-expander"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"select-and-scatter"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite in every reachable computation."""
        changed = False
        for computation in module.post_order():
            for item in [i for i in computation.instructions if i.opcode == "select-and-scatter"]:
                computation.replace(item, _Expansion.of(item).result())
                changed = True
        return changed


@record
class _Expansion:
    """One op being rewritten: its parts, and numbers that identify the elements of a window."""

    op: Instruction
    build: Builder
    window: Window
    dims: tuple[int | Dim, ...]
    counts: tuple[int | Dim, ...]

    @staticmethod
    def of(op: Instruction) -> _Expansion:
        given = op.as_(SelectAndScatterAttributes)
        operand, source, _ = op.operands
        build = Builder(op.computation, op.metadata)
        return _Expansion(op, build, given.window, operand.shape.dims, source.shape.dims)

    def result(self) -> Instruction:
        start = self.build.broadcast_to(self.op.operands[2], self.dims)
        if 0 in self.counts or 0 in self.dims:
            return start
        if (
            any(one.base_dilation != 1 for one in self.window)
            or self._window_size() > MAX_WINDOW_SIZE
        ):
            return self._scattered(start)
        numbers = self._numbers(self._windowed())
        chosen = self._chosen(numbers)
        if all(_is_apart(one) for one in self.window):
            return self._joined(start, self._spread(chosen, -1), numbers, self._spread_source())
        total = start
        ranges = [range(one.size) for one in self.window]
        for index in reversed(list(product(*ranges))):
            here = self._padded(chosen, index, self.build.constant(-1, chosen.shape.dtype))
            zero = self.build.constant(0, self.op.shape.dtype)
            source = self._padded(self.op.operands[1], index, zero)
            total = self._joined(total, here, numbers, source)
        return total

    def _window_size(self) -> int:
        return window_elements(self.window)

    def _windowed(self) -> tuple[int, ...]:
        """Return the dimensions along which the window moves at all."""
        return tuple(dim for dim, one in enumerate(self.window) if one != _WHOLE)

    def _numbers(self, dimensions: tuple[int, ...]) -> Instruction:
        """Return an array of the operand's shape that numbers the elements along `dimensions`."""
        sizes = tuple(self.dims[dim] for dim in dimensions)
        count: int | Dim = 1
        for size in sizes:
            count = count * size
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
        zero = b.constant(0, element)
        keep = b.call(selected, other, to_apply=given.select, shape=given.select.root.shape)
        is_real = b.compare(other_at, zero, direction="GE")
        is_first = b.compare(at, zero, direction="LT")
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

    # ---- windows that lie apart

    def _spread_source(self) -> Instruction:
        return self._spread(self.op.operands[1], 0)

    def _spread(self, value: Instruction, filler: int) -> Instruction:
        """Return an array of the operand's shape with the value of each element's window."""
        build = self.build
        inner: list[int | Dim] = []
        whole: list[int | Dim] = []
        for count, one in zip(self.counts, self.window, strict=True):
            inner.extend((count, one.size))
            whole.append(count * one.size)
        dimensions = tuple(range(0, 2 * len(self.counts), 2))
        repeated = build.broadcast_to(value, tuple(inner), dimensions)
        repeated = build.reshape_to(repeated, tuple(whole))
        padding: list[tuple[int, int, int]] = []
        for size, covered in zip(self.dims, whole, strict=True):
            rest = size - covered
            assert isinstance(rest, int), "windows move along dimensions of known sizes"
            padding.append((0, rest, 0))
        if all(item == (0, 0, 0) for item in padding):
            return repeated
        return build.pad(
            repeated, build.constant(filler, value.shape.dtype), padding=tuple(padding)
        )

    # ---- windows that overlap

    def _padded(
        self, value: Instruction, index: tuple[int, ...], filler: Instruction
    ) -> Instruction:
        """Return for each element of the operand the value of the window with it at `index`."""
        padding: list[tuple[int, int, int]] = []
        for at, one, size, count in zip(index, self.window, self.dims, self.counts, strict=True):
            low = at * one.window_dilation - one.low
            high = size - low - ((count - 1) * one.stride + 1)
            assert isinstance(high, int), "windows move along dimensions of known sizes"
            padding.append((low, high, one.stride - 1))
        return self.build.pad(value, filler, padding=tuple(padding))

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


def _is_apart(one: WindowDimension) -> bool:
    """Whether windows neither overlap nor have gaps or padding before them."""
    return one.stride == one.size and one.low == 0 and one.window_dilation == 1
