# SPDX-License-Identifier: Apache-2.0
"""Packing of contraction operands: any expression, evaluated into the layout of micro-kernels.

A register block of rows of the lhs is packed at a time, row after row. A unit's block of columns of
the rhs is packed in panels as wide as the register block, each k after k. Lanes run along the axis
that the operand's loads walk with stride one; a panel whose lanes run along k is transposed in
registers.

Invariant: elements of a buffer beyond the operand's extents never reach a result.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ingot.emit.values.conversions import convert
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.squares import transpose
from ingot.emit.values.types import register_type
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dtype import PRED, DType
from ingot.kernel.expr import Expr
from ingot.kernel.product.blocks import SQUARE
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record


def cell_type(accumulate: DType) -> Type:
    """Return the LLVM type of one sum and of one packed element."""
    return lt.I8 if accumulate is PRED else register_type(accumulate)


@record
class Span:
    """A run along an axis: `count` positions from `start`, which `aligned` is known to divide."""

    axis: str
    start: IndexValue
    count: IndexValue
    aligned: int = 1

    @staticmethod
    def of_block(
        f: FunctionBuilder, axis: str, number: IndexValue, size: int, extent: IndexValue
    ) -> Span:
        """Emit block `number` of an axis that is cut into blocks of `size`; the last is shorter."""
        if isinstance(extent, int) and extent <= size:
            return Span(axis, 0, extent)
        start = f.imul(number, size)
        if isinstance(extent, int) and extent % size == 0:
            return Span(axis, start, size, size)
        return Span(axis, start, f.isub(f.imin(f.iadd(start, size), extent), start), size)


@record
class Panels:
    """How a buffer of panels lies: `columns` wide and `depth` long each.

    `is_transposed`: the operand's loads walk along k, and squares are transposed in registers.
    """

    columns: int
    depth: IndexValue
    is_transposed: bool = False


class Packer:
    """Evaluates operand blocks of one kernel into buffers."""

    def __init__(self, emitter: ValueEmitter, accumulate: DType, lanes: int) -> None:
        """Pack as elements of the type that products are summed in, `lanes` at a time."""
        self.f = emitter.f
        self.lanes = lanes
        self.emitter = emitter
        self.accumulate = accumulate
        self.cell = cell_type(accumulate)

    def rows(self, operand: Expr, buffer: Value, m: Span, k: Span, row_step: IndexValue) -> None:
        """Pack rows of the lhs: element (i, k) to `buffer[i * row_step + k]`."""
        f, emitter, lanes = self.f, self.emitter, self.lanes

        def row(i: Value) -> None:
            emitter.names[m.axis] = f.iadd(m.start, i)
            start = f.gep(buffer, f.imul(i, row_step), self.cell)

            def at(position: Value, mask: Value | None) -> None:
                value = self.evaluate(operand, k, position, lanes, mask)
                f.store(value, f.gep(start, position, self.cell), self.cell.alignment)

            self.vectors(k.count, lanes, at)

        f.for_range(m.count, row)

    def across(self, operand: Expr, buffer: Value, m: Span, k: Span, step: IndexValue) -> None:
        """Pack rows of the lhs, lanes along m: element (i, k) to `buffer[k * step + i]`."""
        f, emitter, lanes = self.f, self.emitter, self.lanes

        def line(number: Value) -> None:
            emitter.names[k.axis] = f.iadd(k.start, number)
            start = f.gep(buffer, f.imul(number, step), self.cell)

            def at(position: Value, mask: Value | None) -> None:
                value = self.evaluate(operand, m, position, lanes, mask)
                f.store(value, f.gep(start, position, self.cell), self.cell.alignment)

            Packer.vectors(self, m.count, lanes, at)

        self.steps(k, line)

    def steps(self, k: Span, body: Callable[[Value], None]) -> None:
        """Run `body` for each packed element along k."""
        self.f.for_range(k.count, body)

    def panels(self, operand: Expr, buffer: Value, n: Span, k: Span, layout: Panels) -> None:
        """Pack columns of the rhs.

        Element (k, j) goes to `buffer[(j // columns * depth + k) * columns + j % columns]`.
        """
        f = self.f
        columns, depth = layout.columns, layout.depth
        if not layout.is_transposed:
            self._lines(operand, buffer, n, k, layout)
            return

        def panel(first: Value) -> None:
            start = f.gep(buffer, f.imul(first, depth), self.cell)
            width = f.imin(f.isub(n.count, first), columns)
            part = Span(n.axis, f.iadd(n.start, first), width)
            self._transposed_panel(operand, start, part, k, layout)

        f.for_range(n.count, panel, step=columns)

    def _lines(self, operand: Expr, buffer: Value, n: Span, k: Span, layout: Panels) -> None:
        """Pack with lanes along n, k after k, so that the operand's rows are read whole."""
        f, emitter = self.f, self.emitter
        lanes, columns, depth = self.lanes, layout.columns, layout.depth
        whole = f.imul(f.idiv(n.count, columns), columns)

        def part(line: Value, first: IndexValue, masks: list[Value | None]) -> None:
            target = f.gep(line, f.imul(first, depth), self.cell)
            for number, mask in enumerate(masks):
                offset = number * lanes
                value = self.evaluate(operand, n, f.iadd(first, offset), lanes, mask)
                f.store(value, f.gep(target, offset, self.cell), self.cell.alignment)

        left = f.isub(n.count, whole)
        everything: list[Value | None] = [None] * (columns // lanes)
        is_even = f.ieq(left, 0) is True
        masks = [
            None if is_even else lane_mask(f, f.isub(left, number * lanes), lanes)
            for number in range(columns // lanes)
        ]

        def line(step: Value) -> None:
            emitter.names[k.axis] = f.iadd(k.start, step)
            start = f.gep(buffer, f.imul(step, columns), self.cell)
            f.for_range(whole, lambda first: part(start, first, everything), step=columns)
            if not is_even:
                f.if_(f.igt(left, 0), lambda: part(start, whole, masks))

        self.steps(k, line)

    def _transposed_panel(
        self, operand: Expr, start: Value, n: Span, k: Span, layout: Panels
    ) -> None:
        """Pack one panel with lanes along k: square blocks are transposed in registers."""
        f, emitter = self.f, self.emitter
        lanes, columns = min(self.lanes, SQUARE), layout.columns
        last = f.isub(n.count, 1)

        def group(offset: Value) -> None:
            def square(position: Value, mask: Value | None) -> None:
                lines: list[Value] = []
                for number in range(lanes):
                    # Columns beyond the last repeat it: they are computed and not stored.
                    column = f.imin(f.iadd(offset, number), last)
                    emitter.names[n.axis] = f.iadd(n.start, column)
                    lines.append(self.evaluate(operand, k, position, lanes, mask))
                target = f.gep(start, f.iadd(f.imul(position, columns), offset), self.cell)
                for number, line in enumerate(transpose(f, lines)):
                    f.store(line, f.gep(target, number * columns, self.cell), self.cell.alignment)

            if not isinstance(k.count, int):
                self.vectors(k.count, lanes, square)
                return
            is_even = k.count % lanes == 0

            def step(position: Value) -> None:
                # One body, masked throughout where there is a tail: a square is much code.
                left = f.isub(k.count, position)
                square(position, None if is_even else lane_mask(f, left, lanes))

            f.for_range(k.count, step, step=lanes)

        f.for_range(columns, group, step=lanes)

    def vectors(
        self, count: IndexValue, lanes: int, body: Callable[[Value, Value | None], None]
    ) -> None:
        """Run `body(position, mask)` for vectors of `count` positions, the last one masked."""
        f = self.f
        whole = f.imul(f.idiv(count, lanes), lanes)
        f.for_range(whole, lambda position: body(position, None), step=lanes)
        if lanes == 1:
            return

        def rest() -> None:
            body(f.as_value(whole), lane_mask(f, f.isub(count, whole), lanes))

        f.if_(f.ilt(whole, count), rest)

    def evaluate(
        self, operand: Expr, along: Span, offset: IndexValue, lanes: int, mask: Value | None
    ) -> Value:
        """Return the operand's elements from `offset` on along an axis, as packed elements.

        The offset is a multiple of the lanes.
        """
        f, emitter = self.f, self.emitter
        emitter.names[along.axis] = f.iadd(along.start, offset)
        known = along.start if isinstance(along.start, int) else along.aligned
        emitter.lanes = Lanes(along.axis, lanes, mask, gcd(known, lanes))
        emitter.open_scope()
        value = emitter.vector_value(operand, lanes)
        emitter.close_scope()
        emitter.lanes = None
        value = convert(f, value, operand.dtype, self.accumulate, emitter.has_f16c)
        return f.zext(value, vector(self.cell, lanes)) if self.accumulate is PRED else value


def lane_mask(f: FunctionBuilder, count: IndexValue, lanes: int) -> Value | None:
    """Return the mask of the first `count` lanes."""
    if lanes == 1:
        return None
    narrow = f.trunc(f.as_value(count), lt.I32)
    numbers = f.const(vector(lt.I32, lanes), list(range(lanes)))
    return f.icmp("slt", numbers, f.splat(narrow, lanes))
