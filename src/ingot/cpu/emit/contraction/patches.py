# SPDX-License-Identifier: Apache-2.0
"""Packing of a convolution's input: patches gathered a register block of rows at a time.

Rows (m) and depth (k) are products of axes (`kernel.ir.Patches`). The innermost axes are walked in
segments, in which the outer ones stand still; lanes run along whichever innermost axis the input's
memory does. Masks (padding, gaps) are part of the lhs expression, so gaps are packed as zeros; a
segment that meets none is copied without masks (`kernel.elemental.convolution_index`).

Along k, row i starts at `buffer[i * step]`; along m, element (i, k) lies at `buffer[k * step + i]`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.cpu.emit.contraction.packing import Packer, Span, lane_mask
from ingot.emit.values.indices import IndexValue
from ingot.kernel.contraction.operands import is_plain, stride
from ingot.kernel.elemental.convolution_index import Bound, interior
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, Patches
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record

Segment = Callable[[IndexValue, IndexValue, IndexValue], None]
"""Called with a segment's position in the span, its start along the innermost axis, its run."""

Reader = Callable[[Value, "Value | None"], Value]


@record
class _Columns:
    """Rows that are packed side by side.

    Attributes:
        buffer: where the first one's first element goes.
        rows: the run of rows along the innermost axis of m.
        step: lanes from k to k.
        mask: lanes of the rows; None: all.
    """

    buffer: Value
    rows: Span
    step: int
    mask: Value | None


@record
class PatchPacker:
    """Packs blocks of one lhs.

    Attributes:
        packer: evaluates expressions.
        lhs: the operand, over the axes of `patches`.
        patches: the axes.
        is_aligned: whether every span of k starts and ends between segments.
    """

    packer: Packer
    lhs: Expr
    patches: Patches
    is_aligned: bool

    def pack(self, buffer: Value, m: Span, k: Span, step: int) -> None:
        """Pack the block of rows `m` and depth `k` into `buffer`."""
        if self.patches.along_k:
            self._rows(buffer, m, k, step)
        else:
            self._columns(buffer, m, k, step)

    def _rows(self, buffer: Value, m: Span, k: Span, step: int) -> None:
        packer = self.packer
        f, emitter = packer.f, packer.emitter
        inner = self.patches.k[-1]
        changing = frozenset((inner.name,))
        lanes = _fitting(inner.extent, packer.lanes)

        def row(i: Value) -> None:
            self._bind(self.patches.m, f.iadd(m.start, i))
            start = f.gep(buffer, f.imul(i, step), packer.cell)
            known = self._of_row() if len(self.patches.k) > 1 else {}

            def segment(position: IndexValue, first: IndexValue, run: IndexValue) -> None:
                part = Span(inner.name, first, run)

                def copy(operand: Expr) -> None:
                    emitter.open_scope()
                    emitter.prepare((operand,), changing)
                    read = self._reader(operand, part, lanes)

                    def at(offset: Value, mask: Value | None) -> None:
                        target = f.gep(start, f.iadd(position, offset), packer.cell)
                        # The excess of a last vector is overwritten by the next row.
                        f.store(read(offset, mask), target, packer.cell.alignment)

                    packer.vectors(run, lanes, at)
                    emitter.close_scope()

                self._inside_or_not((part,), copy, known=known)

            self._segments(self.patches.k, k, segment, self.is_aligned)

        f.for_range(m.count, row)

    def _columns(self, buffer: Value, m: Span, k: Span, step: int) -> None:
        f = self.packer.f
        inner = self.patches.m[-1]

        def rows(i: IndexValue, first: IndexValue, run: IndexValue) -> None:
            columns = _Columns(
                f.gep(buffer, i, self.packer.cell),
                Span(inner.name, first, run),
                step,
                lane_mask(f, run, step),
            )

            def segment(position: IndexValue, first: IndexValue, run: IndexValue) -> None:
                self._column_segment(columns, position, first, run)

            self._segments(self.patches.k, k, segment, self.is_aligned)

        self._segments(self.patches.m, m, rows, False)

    def _column_segment(
        self, columns: _Columns, position: IndexValue, first: IndexValue, run: IndexValue
    ) -> None:
        """Pack a segment of k; where it meets padding, its elements are looked at one by one."""
        packer, part = self.packer, columns.rows
        f = packer.f
        inner = self.patches.k[-1] if self.patches.k else None

        def store(value: Value, j: Value) -> None:
            line = f.imul(f.iadd(position, j), columns.step)
            target = f.gep(columns.buffer, line, packer.cell)
            f.masked_store(value, target, columns.mask, packer.cell.alignment)

        blocks = (part,) if inner is None else (part, Span(inner.name, first, run))

        def whole(operand: Expr) -> None:
            read = self._column_reader(operand, blocks, columns)
            f.for_range(run, lambda j: store(read(j), j))

        def element(j: Value) -> None:
            if inner is not None:
                packer.emitter.names[inner.name] = f.iadd(first, j)

            def copy(operand: Expr) -> None:
                store(self._column_reader(operand, (part,), columns)(j), j)

            self._inside_or_not((part,), copy)

        def one_by_one() -> None:
            f.for_range(run, element)

        self._inside_or_not(blocks, whole, one_by_one)

    # ---- reading the operand

    def _inside_or_not(
        self,
        blocks: tuple[Span, ...],
        copy: Callable[[Expr], None],
        otherwise: Callable[[], None] | None = None,
        known: dict[Bound, Value] | None = None,
    ) -> None:
        """Copy the operand without masks where the block of positions needs none.

        Else copy it with them, or do what `otherwise` does. Bounds in `known` are emitted already.
        """
        inner = interior(self.lhs, tuple(span.axis for span in blocks))
        if inner is None or not inner.bounds:
            copy(self.lhs)
            return
        f = self.packer.f
        inside: Value | None = None
        for bound in inner.bounds:
            found = (known or {}).get(bound)
            value = self._holds(bound, blocks) if found is None else found
            inside = value if inside is None else f.and_(inside, value)
        assert inside is not None, "there are bounds"
        masked = otherwise or (lambda: copy(self.lhs))
        f.if_(inside, lambda: copy(inner.value), masked, likely=True)

    def _holds(self, bound: Bound, blocks: tuple[Span, ...]) -> Value:
        """Return whether a bound holds all over a block."""
        f, emitter = self.packer.f, self.packer.emitter
        for span in blocks:
            last = f.isub(f.iadd(span.start, span.count), 1)
            emitter.names[span.axis] = last if span.axis in bound.at_last else span.start
        emitter.open_scope()
        value = emitter.value(bound.condition)
        emitter.close_scope()
        return value

    def _of_row(self) -> dict[Bound, Value]:
        """Return whether the bounds hold that are the same for all segments of a row."""
        *outer, inner = self.patches.k
        found = interior(self.lhs, (inner.name,))
        if found is None or not self.is_aligned:
            return {}
        whole = Span(inner.name, 0, self.packer.emitter.index(inner.extent))
        changing = {axis.name for axis in outer}
        bounds = [bound for bound in found.bounds if not bound.condition.axes & changing]
        return {bound: self._holds(bound, (whole,)) for bound in bounds}

    def _start(self, operand: Expr, blocks: tuple[Span, ...]) -> Value | None:
        """Return the address of a block's first element where the operand is copied as it is."""
        packer = self.packer
        names = tuple(span.axis for span in blocks)
        if not is_plain(operand, names, packer.accumulate):
            return None
        for span in blocks:
            packer.emitter.names[span.axis] = span.start
        access = operand.payload
        where = packer.emitter.index(access.index)
        return packer.f.gep(packer.emitter.buffers[access.buffer], where, packer.cell)

    def _reader(self, operand: Expr, part: Span, lanes: int) -> Reader:
        """Return how vectors along `part` are read, from an offset on and under a mask."""
        packer = self.packer
        start = self._start(operand, (part,))
        is_dense = start is not None and stride(operand.payload.index, part.axis) == 1
        if start is None or not is_dense:
            return lambda offset, mask: packer.evaluate(operand, part, offset, lanes, mask)
        return lambda offset, mask: self._loaded(start, offset, lanes, mask)

    def _column_reader(
        self, operand: Expr, blocks: tuple[Span, ...], columns: _Columns
    ) -> Callable[[Value], Value]:
        """Return how vectors along the first block are read at an offset along the second."""
        packer, lanes, mask = self.packer, columns.step, columns.mask
        part, *others = blocks
        start = self._start(operand, blocks)
        is_dense = start is not None and stride(operand.payload.index, part.axis) == 1
        if start is None or not is_dense:

            def evaluated(offset: Value) -> Value:
                for along in others:
                    packer.emitter.names[along.axis] = packer.f.iadd(along.start, offset)
                return packer.evaluate(operand, part, 0, lanes, mask)

            return evaluated
        steps = [stride(operand.payload.index, along.axis) for along in others]
        step = packer.emitter.index(steps[0] or 0) if steps else 0
        return lambda offset: self._loaded(start, packer.f.imul(offset, step), lanes, mask)

    def _loaded(self, start: Value, offset: IndexValue, lanes: int, mask: Value | None) -> Value:
        f, cell = self.packer.f, self.packer.cell
        pointer, wide = f.gep(start, offset, cell), vector(cell, lanes)
        return f.masked_load(wide, pointer, mask, align=cell.alignment)

    # ---- walking products of axes

    def _bind(self, axes: tuple[Axis, ...], flat: IndexValue) -> None:
        """Bind axes to their positions at position `flat` of their product."""
        f, emitter = self.packer.f, self.packer.emitter
        for number, axis in reversed(list(enumerate(axes))):
            if number == 0:
                emitter.names[axis.name] = flat
                return
            extent = emitter.index(axis.extent)
            emitter.names[axis.name] = f.irem(flat, extent)
            flat = f.idiv(flat, extent)

    def _segments(
        self, axes: tuple[Axis, ...], span: Span, body: Segment, is_aligned: bool
    ) -> None:
        """Call `body` for each segment of a span along the product of `axes`, in order."""
        f = self.packer.f
        if len(axes) <= 1:
            body(0, span.start, span.count)
            return
        *outer, inner = axes
        extent = self.packer.emitter.index(inner.extent)
        if is_aligned:
            before = f.idiv(span.start, extent)

            def whole(number: Value) -> None:
                self._bind(tuple(outer), f.iadd(before, number))
                body(f.imul(number, extent), 0, extent)

            f.for_range(f.idiv(span.count, extent), whole)
            return
        count = f.as_value(span.count)

        def step(values: list[Value]) -> list[Value]:
            (position,) = values
            flat = f.iadd(span.start, position)
            first = f.irem(flat, extent)
            self._bind(tuple(outer), f.idiv(flat, extent))
            run = f.imin(f.isub(extent, first), f.isub(count, position))
            body(position, first, run)
            return [f.as_value(f.iadd(position, run))]

        f.while_([f.as_value(0)], lambda values: f.icmp("slt", values[0], count), step)


def _fitting(extent: object, lanes: int) -> int:
    """Return fewer lanes where the axis is shorter than a vector."""
    while isinstance(extent, int) and lanes > 1 and lanes // 2 >= extent:
        lanes //= 2
    return lanes
