# SPDX-License-Identifier: Apache-2.0
"""Winograd convolutions: `void taps(ptr env, i64 chunk)`, then `void units(ptr env, i64 chunk)`.

The first function transforms the taps into 16 planes of panels, each as wide as a register block. A
unit then transforms its tiles of the image, runs a product for each plane and adds the planes up:
into the result, or into rows that an epilogue reads. Constants of a contraction kernel are
parameters here (`kernel.convolution.winograd.PARAMETERS`), so the two functions serve every size.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.analysis.library import VECTORS
from ingot.cpu.emit.contraction.microkernel import MicroKernel, on_panels, shared_along
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.convolution.winograd_transforms import (
    RESULTS,
    SIDE,
    TAPS,
    Row,
    both_ways,
    of_image,
    of_sums,
    of_taps,
)
from ingot.cpu.emit.drivers import DriverCall, DriverEmitter, DriverEnv, DriverPart, open_driver
from ingot.cpu.emit.kernel_abi import Phase, for_units
from ingot.cpu.emit.template import Template, template_of
from ingot.hlo.dtype import DType
from ingot.kernel.convolution.winograd import PARAMETERS, PLANES, Winograd
from ingot.kernel.ir import PlainConvolution
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record


def micro_kernel(element: DType, lanes: int, rows: int) -> MicroKernel:
    """Return the micro-kernel of the planes' products."""
    common = shared_along(cell_type(element), lanes, rows, VECTORS, masked=False)
    return on_panels(common, VECTORS * lanes)


def winograd_template(element: DType, lanes: int) -> Template:
    """Return the driver of an element type: the functions `{name}_taps` and `{name}_units`."""
    name = f"winograd_{element.name}x{lanes}"

    def opened(module: ModuleBuilder, phase: str) -> _Driver:
        f, env = open_driver(module, f"{name}_{phase}", PARAMETERS, 1)
        return _Driver(f, element, lanes, env)

    def define(module: ModuleBuilder) -> None:
        taps = opened(module, "taps")
        taps.transform_taps()
        taps.f.ret()
        units = opened(module, "units")
        f, given = units.f, units.given
        for_units(f, units.env.chunk, given["grain"], given["units"], units.unit)
        f.ret()

    return Template(name, define, PARAMETERS)


def winograd_call(given: PlainConvolution, result: int | None, plan: Winograd) -> DriverCall:
    """Return how a convolution runs by Winograd's algorithm; `result`: see `DriverCall`."""
    code = winograd_template(plan.element, plan.lanes)
    micro = (template_of(micro_kernel(plan.element, plan.lanes, plan.value("rows"))),)
    return DriverCall(
        code,
        (Phase(f"{code.name}_taps", plan.taps_chunks), Phase(f"{code.name}_units", plan.chunks)),
        (given.lhs, given.rhs),
        result,
        (DriverPart(plan.parameters, micro),),
        plan.scratch_bytes,
        plan.value("n_block"),
    )


@record
class _Unit:
    """A range of rows of tiles, and of panels of features."""

    rows: tuple[Value, Value]
    panels: tuple[Value, Value]


class _Areas:
    """The parts of the scratch; see `kernel.convolution.winograd.PARAMETERS`."""

    def __init__(self, f: FunctionBuilder, cell: Type, env: DriverEnv) -> None:
        planes = f.const(lt.I64, PLANES)
        given = env.given
        self.taps = env.scratch
        behind = f.gep(env.scratch, f.mul(planes, given["taps_plane"]), cell)
        self.image = f.gep(behind, f.mul(env.chunk, given["chunk_elements"]), cell)
        self.sums = f.gep(self.image, f.mul(planes, given["image_plane"]), cell)
        self.patch = f.gep(self.sums, f.mul(planes, given["sums_plane"]), cell)
        self.nowhere = f.gep(self.patch, f.mul(planes, given["channels"]), cell)
        self.rows = f.gep(self.nowhere, given["n_block"], cell)


class _Driver(DriverEmitter):
    """Emits one of the functions."""

    def __init__(self, f: FunctionBuilder, element: DType, lanes: int, env: DriverEnv) -> None:
        super().__init__(f, env, cell_type(element))
        self.element = element
        self.lanes = lanes
        self.areas = _Areas(f, self.cell, env)

    @property
    def _columns(self) -> Value:
        return self.f.const(lt.I64, VECTORS * self.lanes)

    def _load(self, address: Value) -> Value:
        return self.f.load(vector(self.cell, self.lanes), address, self.cell.alignment)

    def _store(self, value: Value, address: Value) -> None:
        self.f.store(value, address, self.cell.alignment)

    def _square(self, base: Value, side: int, row: Value, column: Value) -> list[list[Value]]:
        """Return the vectors of a square of elements, from `base` on."""
        return [
            [self._load(self.at(base, (row, i), (column, j))) for j in range(side)]
            for i in range(side)
        ]

    # ---- taps

    def transform_taps(self) -> None:
        """Emit a chunk of panels: element (plane, panel, channel, column) of the scratch."""
        f, given = self.f, self.given
        columns, channels, features = self._columns, given["channels"], given["features"]
        down, across = given["tap_row"], given["tap_column"]

        def panel(number: Value) -> None:
            start = f.gep(self.at(self.env.rhs, (number, columns)), given["tap_first"], self.cell)
            planes = self.at(self.areas.taps, (f.mul(number, channels), columns))

            def channel(c: Value) -> None:
                for part in range(0, VECTORS * self.lanes, self.lanes):
                    source = f.gep(self.at(start, (c, features)), part, self.cell)
                    target = f.gep(self.at(planes, (c, columns)), part, self.cell)
                    taps = both_ways(f, self._square(source, TAPS, down, across), of_taps)
                    self._scatter(taps, target, given["taps_plane"])

            f.for_range(channels, channel)

        for_units(f, self.env.chunk, given["panel_grain"], given["panels"], panel)

    def _scatter(self, square: Sequence[Row], target: Value, plane: Value) -> None:
        """Store a transformed square, each element into its plane."""
        for number, value in enumerate(value for row in square for value in row):
            self._store(value, self.at(target, (plane, number)))

    # ---- units

    def unit(self, number: Value) -> None:
        """Emit a unit: rows of tiles fastest, then blocks of features."""
        f, given = self.f, self.given
        units = given["row_units"]
        row, block = f.as_value(f.irem(number, units)), f.as_value(f.idiv(number, units))

        def start(of: Value) -> Value:
            return f.as_value(f.idiv(f.mul(of, given["tile_rows"]), units))

        width = f.as_value(f.idiv(given["n_block"], self._columns))
        panel = f.mul(block, width)
        one = f.const(lt.I64, 1)
        unit = _Unit((start(row), start(f.add(row, one))), (panel, f.add(panel, width)))
        self._tiles(unit, self._image_tile)
        self._products(unit)
        self._tiles(unit, self._result_tile, self._finish)

    def _tiles(
        self,
        unit: _Unit,
        tile: Callable[[_Unit, Value, Value, Value], None],
        after: Callable[[_Unit, Value], None] | None = None,
    ) -> None:
        """Call `tile(unit, row, column, number in the unit)` for every tile, `after` each row."""
        f, across = self.f, self.given["tiles_across"]
        first, last = unit.rows

        def row(number: Value) -> None:
            before = f.mul(f.sub(number, first), across)
            f.for_range(across, lambda x: tile(unit, number, x, f.add(before, x)))
            if after is not None:
                after(unit, number)

        f.for_range(last, row, start=first)

    def _image_tile(self, _: _Unit, row: Value, column: Value, number: Value) -> None:
        f, given = self.f, self.given
        channels = given["channels"]
        image = f.as_value(f.idiv(row, given["tiles_down"]))
        down = f.as_value(f.irem(row, given["tiles_down"]))
        y = f.sub(f.as_value(f.imul(down, RESULTS)), given["low_0"])
        x = f.sub(f.as_value(f.imul(column, RESULTS)), given["low_1"])
        inside = f.and_(self._fits(y, given["height"]), self._fits(x, given["width"]))
        start = self.at(
            self.env.lhs, (f.mul(image, given["height"]), f.mul(given["width"], channels))
        )

        def whole() -> list[Value]:
            row_step = f.mul(given["width"], channels)
            return [self.at(start, (y, row_step), (x, channels)), row_step]

        def border() -> list[Value]:
            self._copy_patch(start, y, x)
            return [self.areas.patch, f.mul(channels, f.const(lt.I64, SIDE))]

        address, row_step = f.if_(inside, whole, border, likely=True)
        target = self.at(self.areas.image, (number, given["image_row"]))

        def vectors(c: Value) -> None:
            tile = self._square(f.gep(address, c, self.cell), SIDE, row_step, channels)
            planes = both_ways(f, tile, of_image)
            self._scatter(planes, f.gep(target, c, self.cell), given["image_plane"])

        f.for_range(channels, vectors, step=self.lanes, at_least_once=True)

    def _fits(self, position: Value, size: Value) -> Value:
        """Return whether a tile's four elements from a position on lie in the image."""
        f = self.f
        before = f.icmp("sge", position, f.const(lt.I64, 0))
        return f.and_(before, f.icmp("sle", f.as_value(f.iadd(position, SIDE)), size))

    def _copy_patch(self, start: Value, y: Value, x: Value) -> None:
        """Copy a tile's elements of the image; those outside are zero."""
        f, given = self.f, self.given
        channels = given["channels"]

        def element(number: Value) -> None:
            at_y = f.add(y, f.as_value(f.idiv(number, SIDE)))
            at_x = f.add(x, f.as_value(f.irem(number, SIDE)))
            target = self.at(self.areas.patch, (number, channels))
            # Unsigned: a negative position is large.
            inside = f.and_(
                f.icmp("ult", at_y, given["height"]), f.icmp("ult", at_x, given["width"])
            )
            pixel = f.add(f.mul(at_y, given["width"]), at_x)

            def copy() -> None:
                source = self.at(start, (pixel, channels))

                def vectors(c: Value) -> None:
                    value = self._load(f.gep(source, c, self.cell))
                    self._store(value, f.gep(target, c, self.cell))

                f.for_range(channels, vectors, step=self.lanes, at_least_once=True)

            def clear() -> None:
                zero = f.zero(vector(self.cell, self.lanes))
                f.for_range(
                    channels,
                    lambda c: self._store(zero, f.gep(target, c, self.cell)),
                    step=self.lanes,
                    at_least_once=True,
                )

            f.if_(inside, copy, clear)

        f.for_range(SIDE * SIDE, element)

    def _products(self, unit: _Unit) -> None:
        """Emit the products: plane by plane, panel by panel, the last block of rows moved up."""
        f, given, areas = self.f, self.given, self.areas
        columns, channels = self._columns, given["channels"]
        tiles = f.mul(f.sub(unit.rows[1], unit.rows[0]), given["tiles_across"])
        most = f.sub(tiles, given["rows"])
        signature = [type_ for _, type_ in micro_kernel(self.element, self.lanes, 1).params]
        none = f.const(lt.I64, 0)
        strides = (given["image_row"], given["n_block"])

        def plane(number: Value) -> None:
            image = self.at(areas.image, (number, given["image_plane"]))
            taps = self.at(areas.taps, (number, given["taps_plane"]))
            sums = self.at(areas.sums, (number, given["sums_plane"]))

            def panel(at: Value) -> None:
                right = self.at(taps, (f.mul(at, channels), columns))
                out = self.at(sums, (f.sub(at, unit.panels[0]), columns))

                def block(first: Value) -> None:
                    row = f.as_value(f.imin(first, most))
                    left = self.at(image, (row, given["image_row"]))
                    to = self.at(out, (row, given["n_block"]))
                    args = [left, right, to, channels, f.const(lt.I1, False), none, *strides]
                    f.call_indirect(self.env.micro_kernels[0], lt.VOID, signature, args)

                f.for_range(tiles, block, step=given["rows"], at_least_once=True)

            f.for_range(unit.panels[1], panel, start=unit.panels[0], at_least_once=True)

        f.for_range(PLANES, plane)

    # ---- results

    def _first_result(self, unit: _Unit, row: Value) -> tuple[Value, Value, Value]:
        """Return the first row of results of a row of tiles, if it has a second, its column."""
        f, given = self.f, self.given
        image = f.as_value(f.idiv(row, given["tiles_down"]))
        y = f.as_value(f.imul(f.irem(row, given["tiles_down"]), RESULTS))
        following = f.as_value(f.iadd(y, 1))
        has_second = f.icmp("slt", following, given["result_height"])
        number = f.add(f.mul(image, given["result_height"]), y)
        return number, has_second, f.mul(unit.panels[0], self._columns)

    def _result_tile(self, unit: _Unit, row: Value, column: Value, number: Value) -> None:
        f, given, areas = self.f, self.given, self.areas
        line, has_second, first = self._first_result(unit, row)
        x = f.as_value(f.imul(column, RESULTS))
        is_inside = f.icmp("slt", f.as_value(f.iadd(x, 1)), given["result_width"])
        is_direct = self.env.is_plain(f)
        step = f.select(is_direct, given["features"], given["n_block"])
        direct = f.gep(
            self.at(self.env.result, (f.mul(line, given["result_width"]), step)), first, self.cell
        )
        start = self.at(f.select(is_direct, direct, areas.rows), (x, step))
        below = self.at(start, (given["result_width"], step))
        targets = [
            start,
            f.select(is_inside, self.at(start, (step, 1)), areas.nowhere),
            f.select(has_second, below, areas.nowhere),
            f.select(f.and_(is_inside, has_second), self.at(below, (step, 1)), areas.nowhere),
        ]
        source = self.at(areas.sums, (number, given["n_block"]))
        plane = given["sums_plane"]

        def vectors(n: Value) -> None:
            at = f.gep(source, n, self.cell)
            sums = self._square(at, SIDE, f.mul(plane, f.const(lt.I64, SIDE)), plane)
            results = both_ways(f, sums, of_sums)
            values = [value for line in results for value in line]
            for value, target in zip(values, targets, strict=True):
                self._store(value, f.gep(target, n, self.cell))

        f.for_range(given["n_block"], vectors, step=self.lanes, at_least_once=True)

    def _finish(self, unit: _Unit, row: Value) -> None:
        """Emit the epilogue of a row of tiles."""
        f, given = self.f, self.given
        line, has_second, first = self._first_result(unit, row)
        width = given["result_width"]
        rows = f.select(has_second, f.as_value(f.imul(width, RESULTS)), width)
        zero, one = f.const(lt.I64, 0), f.const(lt.I64, 1)
        block = [zero, f.mul(line, width), rows, one, first, given["n_block"]]
        self.env.finish(f, self.areas.rows, block)
