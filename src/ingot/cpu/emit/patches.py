"""Packing of a convolution's input: patches gathered a register block of rows at a time.

Rows (m) and depth (k) are products of axes (`kernel.ir.Patches`). The innermost axes are walked in
segments, in which the outer ones stand still; lanes run along whichever innermost axis the input's
memory does. Masks (padding, gaps) are part of the lhs expression, so gaps are packed as zeros.

Along k, row i starts at `buffer[i * step]`; along m, element (i, k) lies at `buffer[k * step + i]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ingot.cpu.emit.packing import Packer, Span, lane_mask
from ingot.cpu.emit.values import IndexValue
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, Patches
from ingot.llvm.values import Value

Segment = Callable[[IndexValue, IndexValue, IndexValue], None]
"""Called with a segment's position in the span, its start along the innermost axis, its run."""


@dataclass(frozen=True, slots=True)
class PatchPacker:
    """Packs blocks of one lhs.

    Attributes:
        packer: evaluates expressions.
        lhs: the operand, over the axes of `patches`.
        patches: the axes.
        lanes: lanes of a vector.
        is_aligned: whether every span of k starts and ends between segments.
    """

    packer: Packer
    lhs: Expr
    patches: Patches
    lanes: int
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
        lanes = _fitting(inner.extent, self.lanes)

        def row(i: Value, _: list[Value]) -> None:
            self._bind(self.patches.m, f.iadd(m.start, i))
            start = f.gep(buffer, f.imul(i, step), packer.cell)

            def segment(position: IndexValue, first: IndexValue, run: IndexValue) -> None:
                part = Span(inner.name, first, run)
                emitter.open_scope()
                emitter.prepare((self.lhs,), changing)

                def at(offset: Value, mask: Value | None) -> None:
                    value = packer.evaluate(self.lhs, part, offset, lanes, mask)
                    target = f.gep(start, f.iadd(position, offset), packer.cell)
                    # What a last vector writes too much is written over by what follows.
                    f.store(value, target, packer.cell.alignment)

                packer.vectors(run, lanes, at)
                emitter.close_scope()

            self._segments(self.patches.k, k, segment, self.is_aligned)

        f.loop(0, m.count, 1, [], row)

    def _columns(self, buffer: Value, m: Span, k: Span, step: int) -> None:
        packer = self.packer
        f, emitter = packer.f, packer.emitter
        inner_m, inner_k = self.patches.m[-1], self.patches.k[-1] if self.patches.k else None

        def rows(i: IndexValue, first_m: IndexValue, run_m: IndexValue) -> None:
            mask = lane_mask(f, run_m, step)
            part = Span(inner_m.name, first_m, run_m)

            def segment(position: IndexValue, first: IndexValue, run: IndexValue) -> None:
                def element(j: Value, _: list[Value]) -> None:
                    if inner_k is not None:
                        emitter.names[inner_k.name] = f.iadd(first, j)
                    value = packer.evaluate(self.lhs, part, 0, step, mask)
                    line = f.imul(f.iadd(position, j), step)
                    target = f.gep(buffer, f.iadd(line, i), packer.cell)
                    if mask is None:
                        f.store(value, target, packer.cell.alignment)
                    else:
                        f.masked_store(value, target, mask, packer.cell.alignment)

                f.loop(0, run, 1, [], element)

            self._segments(self.patches.k, k, segment, self.is_aligned)

        self._segments(self.patches.m, m, rows, False)

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

            def whole(number: Value, _: list[Value]) -> None:
                self._bind(tuple(outer), f.iadd(before, number))
                body(f.imul(number, extent), 0, extent)

            f.loop(0, f.idiv(span.count, extent), 1, [], whole)
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
