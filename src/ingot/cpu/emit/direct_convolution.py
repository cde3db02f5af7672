"""The driver of direct convolutions: `void direct(ptr env, i64 chunk)` for every size.

What a contraction kernel has as constants are numbers in env here
(`kernel.direct_convolution.PARAMETERS`). A chunk writes the table of segments once, then runs its
units.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.cpu.emit.drivers import EPILOGUE, DriverCall, DriverEnv, open_driver
from ingot.cpu.emit.kernel_abi import Phase
from ingot.cpu.emit.microkernel import MicroKernel, shared
from ingot.cpu.emit.packing import cell_type, lane_mask
from ingot.hlo.dtype import DType
from ingot.kernel.direct_convolution import MAX_SEGMENTS, PARAMETERS, Direct
from ingot.kernel.ir import PlainConvolution
from ingot.kernel.product import VECTORS
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value

LOW, TALL, LOW_REST, TALL_REST = range(4)
"""Micro-kernels in env; `rest`: columns behind the whole panels."""


def micro_kernel(element: DType, lanes: int, rows: int, *, masked: bool) -> MicroKernel:
    """Return the micro-kernel of a convolution's row blocks."""
    cell = cell_type(element)
    return shared(cell, lanes, rows, VECTORS, masked=masked, a_step=1, is_segmented=True)


@dataclass(frozen=True, slots=True)
class DirectCode:
    """The driver for an element type."""

    element: DType
    lanes: int

    @property
    def name(self) -> str:
        """A name that says all of it."""
        return f"direct_{self.element.name}x{self.lanes}"

    def define(self, module: ModuleBuilder, linkage: str = "") -> None:
        """Define the driver in a module of the library."""
        f, env = open_driver(module, self.name, PARAMETERS, 4)
        driver = _Driver(f, self.element, self.lanes, env)
        driver.write_table()
        first = f.mul(f.params[1], env.given["grain"])
        last = f.imin(f.iadd(first, env.given["grain"]), env.given["units"])
        f.loop(first, last, 1, [], lambda number, _: driver.unit(number))
        f.ret()


def direct_call(given: PlainConvolution, plan: Direct) -> DriverCall:
    """Return how a convolution is summed directly."""
    code = DirectCode(plan.element, plan.lanes)
    micro = tuple(
        micro_kernel(plan.element, plan.lanes, rows, masked=masked)
        for masked in (False, plan.has_rest)
        for rows in plan.heights
    )
    return DriverCall(
        code,
        (Phase(code.name, plan.chunks),),
        (given.image, given.taps),
        plan.parameters,
        micro,
        plan.scratch_bytes,
        plan.value("n_block"),
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit: where it lies, and the first elements of its operands and results.

    Attributes:
        plane: number of the image and of the result's place along the first dimension, as one.
        line: its first line.
        lines: its lines.
        group: the group of features.
        column: its first feature in the group.
        columns: its features.
    """

    plane: Value
    line: Value
    lines: Value
    group: Value
    column: Value
    columns: Value


@dataclass(frozen=True, slots=True)
class _Operands:
    """First elements of a unit's image and result, and the result's step from row to row."""

    image: Value
    result: Value
    row: Value


class _Driver:
    """Emits the driver."""

    def __init__(self, f: FunctionBuilder, element: DType, lanes: int, env: DriverEnv) -> None:
        self.f = f
        self.cell = cell_type(element)
        self.lanes = lanes
        self.env = env
        self.given = env.given
        self.columns = VECTORS * lanes
        self.signature = [
            type_ for _, type_ in micro_kernel(element, lanes, 1, masked=False).params
        ]
        self.table = f.alloca(lt.I64, MAX_SEGMENTS, 64)
        chunk = f.mul(f.params[1], self.given["chunk_elements"])
        self.copy = f.gep(env.scratch, chunk, self.cell)
        self.piece = f.gep(self.copy, self.given["copy_elements"], self.cell)
        depth = f.mul(self.given["piece_segments"], self.given["segment"])
        packed = f.mul(depth, f.const(lt.I64, self.columns))
        self.rows = f.gep(self.piece, packed, self.cell)

    def _at(self, base: Value, *terms: tuple[Value, Value | int]) -> Value:
        """Return the address of element sum(a * b) of `base`."""
        f = self.f
        offset: Value | int = 0
        for a, b in terms:
            offset = f.iadd(offset, f.imul(a, b))
        return f.gep(base, offset, self.cell)

    def _divide(self, number: Value, by: Value) -> tuple[Value, Value]:
        f = self.f
        return f.as_value(f.idiv(number, by)), f.as_value(f.irem(number, by))

    def _position(self, place: Value, dimension: int) -> Value:
        """Return the position in the image where the window of a place begins."""
        f, given = self.f, self.given
        return f.sub(f.mul(place, given[f"stride_{dimension}"]), given[f"low_{dimension}"])

    # ---- the table of segments

    def write_table(self) -> None:
        """Emit the offsets of all segments, from the first element of a window."""
        f, given = self.f, self.given

        def entry(number: Value, _: list[Value]) -> None:
            rest, channel = self._divide(f.mul(number, given["segment"]), given["group_channels"])
            rest, tap_2 = self._divide(rest, given["taps_2"])
            tap_0, tap_1 = self._divide(rest, given["taps_1"])
            offset = f.add(f.mul(tap_0, given["offset_0"]), f.mul(tap_1, given["offset_1"]))
            offset = f.add(offset, f.add(f.mul(tap_2, given["offset_2"]), channel))
            f.store(offset, f.gep(self.table, number, lt.I64), 8)

        f.loop(0, given["segments"], 1, [], entry, at_least_once=True)

    # ---- units

    def unit(self, number: Value) -> None:
        """Emit a unit: lines fastest, then planes, blocks of features, groups."""
        f, given = self.f, self.given
        number, lines = self._divide(number, given["line_units"])
        planes = f.as_value(f.idiv(given["units"], f.mul(given["line_units"], given["blocks"])))
        groups = f.as_value(f.idiv(given["features"], given["group_features"]))
        planes = f.as_value(f.idiv(planes, groups))
        number, plane = self._divide(number, planes)
        group, block = self._divide(number, given["blocks"])
        line = f.mul(lines, given["unit_lines"])
        column = f.mul(block, given["n_block"])
        after = f.imin(f.iadd(line, given["unit_lines"]), given["result_1"])
        behind = f.imin(f.iadd(column, given["n_block"]), given["group_features"])
        unit = _Unit(
            plane,
            line,
            f.as_value(f.isub(after, line)),
            group,
            column,
            f.as_value(f.isub(behind, column)),
        )
        operands = self._operands(unit)
        f.loop(
            0,
            unit.columns,
            self.columns,
            [],
            lambda first, _: self._panel(unit, operands, first),
            at_least_once=True,
        )
        self._finish(unit)

    def _operands(self, unit: _Unit) -> _Operands:
        f, given, env = self.f, self.given, self.env
        image, place = self._divide(unit.plane, given["result_0"])
        z, y = self._position(place, 0), self._position(unit.line, 1)
        start = self._at(env.image, (f.mul(image, given["size_0"]), self._plane_elements()))

        def copied() -> list[Value]:
            self._copy_planes(unit, start, z, y)
            return [self.copy]

        def in_place() -> list[Value]:
            pixel = f.sub(f.mul(y, given["size_2"]), given["low_2"])
            return [self._at(start, (z, self._plane_elements()), (pixel, given["channels"]))]

        (window,) = f.if_(f.icmp("ne", given["copies"], f.const(lt.I64, 0)), copied, in_place)
        is_direct = f.icmp("eq", f.ptrtoint(env.epilogue), f.const(lt.I64, 0))
        first = f.add(f.mul(unit.group, given["group_features"]), unit.column)
        result = f.gep(
            self._at(env.result, (self._first_row(unit), given["features"])), first, self.cell
        )
        return _Operands(
            self._at(window, (unit.group, given["group_channels"])),
            f.select(is_direct, result, self.rows),
            f.select(is_direct, given["features"], given["n_block"]),
        )

    def _plane_elements(self) -> Value:
        f, given = self.f, self.given
        return f.mul(f.mul(given["size_1"], given["size_2"]), given["channels"])

    def _first_row(self, unit: _Unit) -> Value:
        """Return the number of a unit's first result among all places."""
        f, given = self.f, self.given
        line = f.add(f.mul(unit.plane, given["result_1"]), unit.line)
        return f.mul(line, given["result_2"])

    # ---- copying rows

    def _copy_planes(self, unit: _Unit, start: Value, z: Value, y: Value) -> None:
        """Emit the copy of all rows that a unit's windows meet, zeros around."""
        f, given = self.f, self.given
        row_elements = f.mul(given["padded_width"], given["pixel"])
        # The last unit of lines may need fewer rows than there is room for.
        unused = f.mul(f.sub(given["unit_lines"], unit.lines), given["stride_1"])
        rows = f.sub(given["plane_rows"], unused)

        def plane(tap: Value, _: list[Value]) -> None:
            at_z = f.add(z, f.mul(tap, given["dilation_0"]))
            is_plane = f.icmp("ult", at_z, given["size_0"])

            def row(number: Value, _: list[Value]) -> None:
                at_y = f.add(y, number)
                inside = f.and_(is_plane, f.icmp("ult", at_y, given["size_1"]))
                line = f.add(f.mul(tap, given["plane_rows"]), number)
                target = self._at(self.copy, (line, row_elements))
                pixel = f.mul(f.add(f.mul(at_z, given["size_1"]), at_y), given["size_2"])
                source = self._at(start, (pixel, given["channels"]))

                def clear() -> None:
                    f.memset(target, 0, self._bytes(row_elements))

                f.if_(inside, lambda: self._copy_row(source, target), clear, likely=True)

            f.loop(0, rows, 1, [], row, at_least_once=True)

        f.loop(0, given["planes"], 1, [], plane, at_least_once=True)

    def _bytes(self, elements: Value) -> Value:
        return self.f.mul(elements, self.f.const(lt.I64, self.cell.bytes))

    def _copy_row(self, source: Value, target: Value) -> None:
        """Emit the copy of a row of the image, whose first pixel goes `low_2` behind the start."""
        f, given = self.f, self.given
        low, width, pixel = given["low_2"], given["padded_width"], given["pixel"]
        first = f.as_value(f.imax(low, 0))
        behind = f.add(given["size_2"], low)
        last = f.as_value(f.imax(f.imin(behind, width), first))
        count = f.sub(last, first)
        f.memset(target, 0, self._bytes(f.mul(first, pixel)))
        f.memset(self._at(target, (last, pixel)), 0, self._bytes(f.mul(f.sub(width, last), pixel)))
        source = self._at(source, (f.sub(first, low), given["channels"]))
        target = self._at(target, (first, pixel))
        size = self._bytes(given["channels"])

        def one_by_one() -> None:
            def copy(number: Value, _: list[Value]) -> None:
                origin = self._at(source, (number, given["channels"]))
                f.memcpy(self._at(target, (number, pixel)), origin, size)

            f.loop(0, count, 1, [], copy)

        def together() -> None:
            f.memcpy(target, source, f.mul(count, size))

        f.if_(f.icmp("eq", pixel, given["channels"]), together, one_by_one, likely=True)

    # ---- products

    def _panel(self, unit: _Unit, operands: _Operands, first: Value) -> None:
        """Emit the sums of a panel, piece by piece of the taps."""
        f, given, env = self.f, self.given, self.env
        left = f.sub(unit.columns, first)
        is_whole = f.icmp("sge", left, f.const(lt.I64, self.columns))
        low, tall = (
            f.select(is_whole, env.micro_kernels[whole], env.micro_kernels[rest])
            for whole, rest in ((LOW, LOW_REST), (TALL, TALL_REST))
        )
        column = f.add(f.mul(unit.group, given["group_features"]), f.add(unit.column, first))
        taps = f.gep(env.taps, column, self.cell)
        result = f.gep(operands.result, first, self.cell)

        def piece(start: Value, _: list[Value]) -> None:
            end = f.imin(f.iadd(start, given["piece_segments"]), given["segments"])
            count = f.as_value(f.isub(end, start))
            depth = f.mul(count, given["segment"])
            self._pack(
                self._at(taps, (f.mul(start, given["segment"]), given["features"])), depth, left
            )
            accumulate = f.icmp("sgt", start, f.const(lt.I64, 0))
            table = f.gep(self.table, start, lt.I64)

            def line(number: Value, _: list[Value]) -> None:
                image = self._at(operands.image, (number, given["line_step"]))
                to = self._at(result, (f.mul(number, given["result_2"]), operands.row))

                def block(at: Value, _: list[Value]) -> None:
                    is_tall = f.icmp("slt", at, given["tall_blocks"])
                    above = f.as_value(f.imin(at, given["tall_blocks"]))
                    row = f.add(f.mul(at, given["low_rows"]), above)
                    args = [
                        self._at(image, (row, given["row_step"])),
                        self.piece,
                        self._at(to, (row, operands.row)),
                        given["segment"],
                        accumulate,
                        left,
                        given["row_step"],
                        f.const(lt.I64, self.columns),
                        operands.row,
                        table,
                        count,
                    ]
                    run = f.select(is_tall, tall, low)
                    f.call_indirect(run, lt.VOID, self.signature, args)

                f.loop(0, given["row_blocks"], 1, [], block, at_least_once=True)

            f.loop(0, unit.lines, 1, [], line, at_least_once=True)

        f.loop(0, given["segments"], given["piece_segments"], [], piece, at_least_once=True)

    def _pack(self, taps: Value, depth: Value, columns: Value) -> None:
        """Emit the copy of a panel of the taps; columns behind the last one are zero."""
        f = self.f
        wide = vector(self.cell, self.lanes)
        masks = [
            lane_mask(f, f.isub(columns, number * self.lanes), self.lanes)
            for number in range(VECTORS)
        ]

        def step(number: Value, _: list[Value]) -> None:
            source = self._at(taps, (number, self.given["features"]))
            target = self._at(self.piece, (number, self.columns))
            for part, mask in enumerate(masks):
                at = f.gep(source, part * self.lanes, self.cell, inbounds=False)
                assert mask is not None, "vectors have lanes"
                value = f.masked_load(wide, at, mask)
                f.store(value, f.gep(target, part * self.lanes, self.cell), self.cell.alignment)

        f.loop(0, depth, 1, [], step, at_least_once=True)

    def _finish(self, unit: _Unit) -> None:
        """Emit the epilogue of a unit."""
        f, given, env = self.f, self.given, self.env

        def run() -> None:
            rows = f.mul(unit.lines, given["result_2"])
            numbers = [unit.group, self._first_row(unit), rows, unit.column, unit.columns]
            f.call_indirect(env.epilogue, lt.VOID, list(EPILOGUE), [env.outer, self.rows, *numbers])

        f.if_(f.icmp("ne", f.ptrtoint(env.epilogue), f.const(lt.I64, 0)), run)
