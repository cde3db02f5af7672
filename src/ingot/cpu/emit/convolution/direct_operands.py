# SPDX-License-Identifier: Apache-2.0
"""Operands of direct convolutions: packing panels of taps, copying rows of the image.

Parts of the driver (`cpu.emit.convolution.direct`) that filter gradients use too; sizes are
parameters in env.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import cell_type, lane_mask
from ingot.cpu.emit.drivers import DriverEmitter, DriverEnv
from ingot.cpu.emit.kernel_abi import for_units
from ingot.hlo.dtype import DType
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value


class DirectEmitter(DriverEmitter):
    """What the emitters of the driver know beside its env."""

    def __init__(
        self, f: FunctionBuilder, element: DType, panel: tuple[int, int], env: DriverEnv
    ) -> None:
        """Emit into `f`, whose env is `env`; a panel has (vectors, lanes)."""
        super().__init__(f, env, cell_type(element))
        self.vectors, self.lanes = panel
        self.columns = self.vectors * self.lanes

    def divide(self, number: Value, by: Value) -> tuple[Value, Value]:
        """Return quotient and remainder."""
        f = self.f
        return f.as_value(f.idiv(number, by)), f.as_value(f.irem(number, by))

    def bytes(self, elements: Value) -> Value:
        """Return the bytes of `elements`."""
        return self.f.mul(elements, self.f.const(lt.I64, self.cell.bytes))

    @property
    def depth(self) -> Value:
        """Products of a sum."""
        return self.f.mul(self.given["segments"], self.given["segment"])

    @property
    def panels(self) -> Value:
        """Panels of all groups."""
        f, given = self.f, self.given
        groups = f.as_value(f.idiv(given["features"], given["group_features"]))
        return f.mul(groups, given["panels"])

    def panel(self, number: Value) -> Value:
        """Return the address of a packed panel of the taps."""
        start = self.f.gep(self.env.scratch, self.given["panels_at"], self.cell)
        return self.at(start, (self.f.mul(number, self.depth), self.columns))


class PanelPacker(DirectEmitter):
    """Packs the taps: columns behind the last feature are zero."""

    def chunk(self) -> None:
        """Emit the packing of a chunk of panels."""
        f, given = self.f, self.given

        def pack(number: Value) -> None:
            group, panel = self.divide(number, given["panels"])
            column = f.as_value(f.imul(panel, self.columns))
            start = f.add(f.mul(group, given["group_features"]), column)
            left = f.sub(given["group_features"], column)
            source, target = f.gep(self.env.rhs, start, self.cell), self.panel(number)
            channels = given["group_channels"]

            def tap(number: Value) -> None:
                rows = self.at(source, (self._row_of(number), given["features"]))
                to = self.at(target, (f.mul(number, channels), self.columns))
                self.pack(rows, to, channels, left)

            f.for_range(f.idiv(self.depth, channels), tap, at_least_once=True)

        for_units(f, self.env.chunk, given["panel_grain"], self.panels, pack)

    def _row_of(self, tap: Value) -> Value:
        """Return the first row of a tap in the kernel."""
        f, given = self.f, self.given
        rest, tap_2 = self.divide(tap, given["taps_2"])
        tap_0, tap_1 = self.divide(rest, given["taps_1"])
        row = given["tap_first"]
        for number, step in ((tap_0, "tap_0"), (tap_1, "tap_1"), (tap_2, "tap_2")):
            row = f.add(row, f.mul(number, given[step]))
        return row

    def pack(self, taps: Value, panel: Value, depth: Value, columns: Value) -> None:
        """Emit the copy of a piece of a panel; columns behind the last one are zero."""
        f = self.f
        wide = vector(self.cell, self.lanes)
        masks = [
            lane_mask(f, f.isub(columns, number * self.lanes), self.lanes)
            for number in range(self.vectors)
        ]

        def step(number: Value) -> None:
            source = self.at(taps, (number, self.given["features"]))
            target = self.at(panel, (number, self.columns))
            for part, mask in enumerate(masks):
                at = f.gep(source, part * self.lanes, self.cell, inbounds=False)
                assert mask is not None, "vectors have lanes"
                value = f.masked_load(wide, at, mask)
                f.store(value, f.gep(target, part * self.lanes, self.cell), self.cell.alignment)

        f.for_range(depth, step, at_least_once=True)


class RowCopier(DirectEmitter):
    """Copies the rows that a unit reads, where windows meet padding."""

    def planes(
        self,
        target: Value,
        start: Value,
        position: tuple[Value, Value],
        lines: tuple[Value, Value],
        copied: Value,
    ) -> None:
        """Emit the copy of the rows that `lines` of windows meet and earlier lines do not.

        What lies outside of the image is zero.

        Args:
            target: the copy.
            start: the first element of the image that is copied.
            position: plane and row of the unit's first window.
            lines: the first line, and the one after the last.
            copied: channels that are copied of each pixel.
        """
        f, given = self.f, self.given
        z, y = position
        row_elements = f.mul(given["padded_width"], given["pixel"])
        first, last = self._new_rows(lines)

        def plane(tap: Value) -> None:
            at_z = f.add(z, f.mul(tap, given["dilation_0"]))
            is_plane = f.icmp("ult", at_z, given["size_0"])

            def row(number: Value) -> None:
                at_y = f.add(y, number)
                inside = f.and_(is_plane, f.icmp("ult", at_y, given["size_1"]))
                line = f.add(f.mul(tap, given["plane_rows"]), number)
                to = self.at(target, (line, row_elements))
                pixel = f.mul(f.add(f.mul(at_z, given["size_1"]), at_y), given["size_2"])
                source = self.at(start, (pixel, given["channels"]))

                def clear() -> None:
                    f.memset(to, 0, self.bytes(row_elements))

                f.if_(inside, lambda: self._row(source, to, copied), clear, likely=True)

            f.for_range(last, row, start=first, at_least_once=True)

        f.for_range(given["planes"], plane, at_least_once=True)

    def _new_rows(self, lines: tuple[Value, Value]) -> tuple[Value, Value]:
        """Return the rows of a plane that `lines` of windows meet and earlier lines do not."""
        f, given = self.f, self.given
        left = f.sub(given["unit_lines"], lines[1])
        last = f.sub(given["plane_rows"], f.mul(left, given["stride_1"]))
        count = f.mul(f.sub(lines[1], lines[0]), given["stride_1"])
        is_first = f.icmp("eq", lines[0], f.const(lt.I64, 0))
        return f.select(is_first, lines[0], f.sub(last, count)), last

    def _row(self, source: Value, target: Value, copied: Value) -> None:
        """Emit the copy of a row of the image, whose first pixel goes `low_2` behind the start."""
        f, given = self.f, self.given
        low, width, pixel = given["low_2"], given["padded_width"], given["pixel"]
        first = f.as_value(f.imin(f.imax(low, 0), width))
        behind = f.add(given["size_2"], low)
        last = f.as_value(f.imax(f.imin(behind, width), first))
        count = f.sub(last, first)
        f.memset(target, 0, self.bytes(f.mul(first, pixel)))
        f.memset(self.at(target, (last, pixel)), 0, self.bytes(f.mul(f.sub(width, last), pixel)))
        source = self.at(source, (f.sub(first, low), given["channels"]))
        target = self.at(target, (first, pixel))
        whole = f.as_value(f.imul(f.idiv(copied, self.lanes), self.lanes))
        wide, mask = vector(self.cell, self.lanes), lane_mask(f, f.sub(copied, whole), self.lanes)
        assert mask is not None, "vectors have lanes"

        def pixels(number: Value) -> None:
            origin = self.at(source, (number, given["channels"]))
            to = self.at(target, (number, pixel))

            def part(at: Value) -> None:
                value = f.load(wide, f.gep(origin, at, self.cell), self.cell.alignment)
                f.store(value, f.gep(to, at, self.cell), self.cell.alignment)

            f.for_range(whole, part, step=self.lanes)

            def rest() -> None:
                value = f.masked_load(wide, f.gep(origin, whole, self.cell), mask)
                f.masked_store(value, f.gep(to, whole, self.cell), mask)

            f.if_(f.icmp("slt", whole, copied), rest)

        def one_by_one() -> None:
            f.for_range(count, pixels)

        def together() -> None:
            f.memcpy(target, source, self.bytes(f.mul(count, copied)))

        is_dense = f.and_(f.icmp("eq", pixel, given["channels"]), f.icmp("eq", copied, pixel))
        f.if_(is_dense, together, one_by_one, likely=True)
