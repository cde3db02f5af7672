# SPDX-License-Identifier: Apache-2.0
"""Direct convolutions: `void taps(ptr env, i64 chunk)`, then `void units(ptr env, i64 chunk)`.

The first function packs panels of the taps. Constants of a contraction kernel are parameters here
(`kernel.convolution.direct.PARAMETERS`), so the functions serve every size. A chunk of units writes
the table of segments once, then runs its units.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from functools import lru_cache

from ingot.cpu.emit.contraction.microkernel import MOST_SHARED, MicroKernel, on_panels, shared_along
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.convolution.direct_operands import DirectEmitter, PanelPacker, RowCopier
from ingot.cpu.emit.drivers import DriverCall, DriverEnv, DriverPart, open_driver
from ingot.cpu.emit.kernel_abi import Phase, for_units
from ingot.cpu.emit.template import Template, template_of
from ingot.hlo.dtype import DType
from ingot.kernel.convolution.direct import MAX_SEGMENTS, PARAMETERS, Direct, DirectPart
from ingot.kernel.convolution.direct_parts import COPY_BYTES
from ingot.kernel.ir import PlainConvolution
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.values import Value
from ingot.support.records import record, replace

LOW, TALL, LOW_REST, TALL_REST = range(4)
MICRO_KERNELS = 4
"""Micro-kernels in env; `rest`: columns behind the whole panels."""


@lru_cache(maxsize=MOST_SHARED)
def micro_kernel(
    element: DType,
    panel: tuple[int, int],
    rows: int,
    *,
    rest: int = 0,
    taps: int = 0,
) -> MicroKernel:
    """Return the micro-kernel of a convolution's row blocks.

    Args:
        element: type of operands and sums.
        panel: (vectors, lanes) of a panel.
        rows: rows of a block.
        rest: columns of the panel that exist; 0: all.
        taps: see `MicroKernel`; of depthwise convolutions.
    """
    lanes, columns = panel[1], panel[0] * panel[1]
    vectors, masked = -(-(rest or columns) // lanes), rest % lanes > 0
    common = shared_along(cell_type(element), lanes, rows, vectors, masked=masked)
    panels = on_panels(replace(common, is_segmented=True), columns)
    # Depthwise taps are few.
    return replace(panels, taps=taps, rows_ahead=0) if taps else panels


def direct_template(element: DType, panel: tuple[int, int]) -> Template:
    """Return the driver of an element type and (vectors, lanes): `{name}_taps`, `{name}_units`."""
    vectors, lanes = panel
    name = f"direct_{element.name}x{lanes}x{vectors}"

    def define(module: ModuleBuilder) -> None:
        sizes = (PARAMETERS, MICRO_KERNELS)
        f, env = open_driver(module, f"{name}_taps", *sizes, "first_packing")
        PanelPacker(f, element, panel, env).chunk()
        f.ret()
        f, env = open_driver(module, f"{name}_units", *sizes, "first_chunk")
        units = _Units(f, element, panel, env)
        units.write_table()
        for_units(f, env.chunk, env.given["grain"], env.given["units"], units.unit)
        f.ret()

    return Template(name, define, PARAMETERS)


def direct_call(given: PlainConvolution, result: int | None, plan: Direct) -> DriverCall:
    """Return how a convolution is summed directly; `result`: see `DriverCall`."""
    code = direct_template(plan.element, plan.panel)
    parts = tuple(DriverPart(part.parameters, _micro_kernels(plan, part)) for part in plan.parts)
    return DriverCall(
        code,
        (
            *([Phase(f"{code.name}_taps", plan.packing_chunks)] if plan.packing_chunks else []),
            Phase(f"{code.name}_units", plan.chunks),
        ),
        (given.lhs, given.rhs),
        result,
        parts,
        plan.scratch_bytes,
        plan.parts[0].value("n_block"),
    )


def _micro_kernels(plan: Direct, part: DirectPart) -> tuple[Template, ...]:
    """Return a part's micro-kernels, in the order of its env."""
    shape, taps = (plan.element, plan.panel), part.value("segment") if plan.is_depthwise else 0
    return tuple(
        template_of(micro_kernel(*shape, rows, rest=rest, taps=taps))
        for rest in (0, plan.rest)
        for rows in part.heights
    )


@record
class _Unit:
    """A unit: where it lies, and the first elements of its operands and results.

    Attributes:
        plane: number of the image and of the part's position along the first dimension, as one.
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


@record
class _Operands:
    """Where a unit's operands and sums lie.

    Attributes:
        image, result: first elements of its image and sums.
        line, row: the sums' steps from line to line, and from row to row.
        source: first element of what is copied of each pixel, in the first pixel of the image.
        position: plane and line of the image where its first window begins.
    """

    image: Value
    result: Value
    line: Value
    row: Value
    source: Value
    position: tuple[Value, Value]


@record
class _Panel:
    """A panel of a unit's features.

    Attributes:
        first: its first feature in the unit.
        left: features of the unit from there on.
        feature: its first feature in the group.
        low, tall: the micro-kernels of its row blocks.
        packed: where its taps lie if they were packed before.
        taps: where they lie if not.
        is_packed: whether they were.
        result: its sums.
    """

    first: Value
    left: Value
    feature: Value
    low: Value
    tall: Value
    packed: Value
    taps: Value
    is_packed: Value
    result: Value


class _Units(DirectEmitter):
    """Emits units."""

    def __init__(
        self, f: FunctionBuilder, element: DType, panel: tuple[int, int], env: DriverEnv
    ) -> None:
        super().__init__(f, element, panel, env)
        self.packer = PanelPacker(f, element, panel, env)
        self.copier = RowCopier(f, element, panel, env)
        self.signature = [type_ for _, type_ in micro_kernel(element, panel, 1).params]
        given = self.given
        chunks = f.gep(env.scratch, given["chunks_at"], self.cell)
        chunk = self.at(chunks, (env.chunk, given["chunk_elements"]))
        stack = f.alloca(self.cell, COPY_BYTES // self.cell.bytes, 64)
        fits = f.icmp("eq", given["copy_elements"], f.const(lt.I64, 0))
        self.copy = f.select(fits, stack, chunk)
        self.piece = f.gep(chunk, given["copy_elements"], self.cell)
        piece = f.mul(given["piece_segments"], given["segment"])
        self.rows = self.at(self.piece, (piece, self.columns))
        self.table = f.alloca(lt.I64, MAX_SEGMENTS, 64)
        # A line of one panel and one piece has all its products: its epilogue follows at once, and
        # the next line's sums take its place.
        one_panel = f.icmp("sle", given["n_block"], f.const(lt.I64, self.columns))
        one_piece = f.icmp("sle", given["segments"], given["piece_segments"])
        self.by_line = f.and_(one_panel, one_piece)
        line = f.mul(given["result_2"], given["n_block"])
        self.rows_line = f.select(self.by_line, f.const(lt.I64, 0), line)

    def _start(self, position: Value, dimension: int) -> Value:
        """Return the position in the image where the window of a result begins."""
        f, given = self.f, self.given
        return f.sub(f.mul(position, given[f"stride_{dimension}"]), given[f"low_{dimension}"])

    # ---- the table of segments

    def write_table(self) -> None:
        """Emit the offsets of all segments, from the first element of a window."""
        f, given = self.f, self.given

        def entry(number: Value) -> None:
            rest, channel = self.divide(f.mul(number, given["segment"]), given["group_channels"])
            rest, tap_2 = self.divide(rest, given["taps_2"])
            tap_0, tap_1 = self.divide(rest, given["taps_1"])
            offset = f.add(f.mul(tap_0, given["offset_0"]), f.mul(tap_1, given["offset_1"]))
            offset = f.add(offset, f.add(f.mul(tap_2, given["offset_2"]), channel))
            offset = f.add(offset, given["offset_first"])
            f.store(offset, f.gep(self.table, number, lt.I64), 8)

        f.for_range(given["segments"], entry, at_least_once=True)

    # ---- units

    def unit(self, number: Value) -> None:
        """Emit a unit: lines fastest, then planes, blocks of features, groups."""
        f, given = self.f, self.given
        number, lines = self.divide(number, given["line_units"])
        planes = f.as_value(f.idiv(given["units"], f.mul(given["line_units"], given["blocks"])))
        groups = f.as_value(f.idiv(given["features"], given["group_features"]))
        planes = f.as_value(f.idiv(planes, groups))
        number, plane = self.divide(number, planes)
        group, block = self.divide(number, given["blocks"])
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
        f.for_range(
            unit.columns,
            lambda first: self._panel(unit, operands, first),
            step=self.columns,
            at_least_once=True,
        )
        self._finish(unit)

    def _operands(self, unit: _Unit) -> _Operands:
        f, given, env = self.f, self.given, self.env
        image, position = self.divide(unit.plane, given["result_0"])
        z, y = self._start(position, 0), self._start(unit.line, 1)
        start = self.at(
            env.lhs,
            (f.mul(image, given["size_0"]), self._plane_elements()),
            (unit.group, given["group_channels"]),
        )

        # Features are counted from the first of all.
        copied = self.at(self.copy, (f.mul(unit.column, given["own_columns"]), -1))
        pixel = f.sub(f.mul(y, given["size_2"]), given["low_2"])
        in_place = self.at(start, (z, self._plane_elements()), (pixel, given["channels"]))
        window = f.select(self._copies(), copied, in_place)
        is_direct = env.is_plain(f)
        first = f.add(f.mul(unit.group, given["group_features"]), unit.column)
        result = f.gep(
            self.at(env.result, (self._first_row(unit), given["features"])), first, self.cell
        )
        return _Operands(
            window,
            f.select(is_direct, result, self.rows),
            f.select(
                is_direct,
                f.mul(given["out_1"], given["features"]),
                self.rows_line,
            ),
            f.select(is_direct, f.mul(given["out_2"], given["features"]), given["n_block"]),
            self.at(start, (unit.column, given["own_columns"])),
            (z, y),
        )

    def _copies(self) -> Value:
        return self.f.icmp("ne", self.given["copies"], self.f.const(lt.I64, 0))

    def _copy(self, unit: _Unit, operands: _Operands, line: Value) -> None:
        """Emit the copy of the rows that a line is the first of its unit to meet."""
        f, given = self.f, self.given
        is_own = f.icmp("ne", given["own_columns"], f.const(lt.I64, 0))
        pixel = f.select(is_own, unit.columns, given["copied"])
        lines = (line, f.add(line, f.const(lt.I64, 1)))
        self.copier.planes(self.copy, operands.source, operands.position, lines, pixel)

    def _plane_elements(self) -> Value:
        f, given = self.f, self.given
        return f.mul(f.mul(given["size_1"], given["size_2"]), given["channels"])

    def _first_row(self, unit: _Unit) -> Value:
        """Return the number of a unit's first result among all results."""
        f, given = self.f, self.given
        image, position = self.divide(unit.plane, given["result_0"])
        row = f.add(given["out_first"], f.mul(image, given["out_image"]))
        row = f.add(row, f.mul(position, given["out_0"]))
        return f.add(row, f.mul(unit.line, given["out_1"]))

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
        feature = f.add(unit.column, first)
        number = f.as_value(
            f.iadd(f.mul(unit.group, given["panels"]), f.idiv(feature, self.columns))
        )
        packed = self.panel(number)
        column = f.add(f.mul(unit.group, given["group_features"]), feature)
        taps = f.gep(env.rhs, column, self.cell)
        is_packed = f.icmp("ne", given["is_packed"], f.const(lt.I64, 0))
        result = f.gep(operands.result, first, self.cell)
        panel = _Panel(first, left, feature, low, tall, packed, taps, is_packed, result)

        def piece(start: Value) -> None:
            self._piece(unit, operands, panel, start)

        f.for_range(given["segments"], piece, step=given["piece_segments"], at_least_once=True)

    def _piece(self, unit: _Unit, operands: _Operands, panel: _Panel, start: Value) -> None:
        """Emit the sums of a panel over the segments of a piece, line by line."""
        f, given = self.f, self.given
        end = f.imin(f.iadd(start, given["piece_segments"]), given["segments"])
        count = f.as_value(f.isub(end, start))
        packed = self._packed_taps(panel, start, count)
        accumulate = f.icmp("sgt", start, f.const(lt.I64, 0))
        table = f.gep(self.table, start, lt.I64)
        is_first = f.icmp("eq", f.or_(panel.first, start), f.const(lt.I64, 0))
        copies = f.and_(is_first, self._copies())

        def line(number: Value) -> None:
            f.if_(copies, lambda: self._copy(unit, operands, number))
            steps = ((number, given["line_step"]), (panel.feature, given["column_step"]))
            image = self.at(operands.image, *steps)
            to = self.at(panel.result, (number, operands.line))

            def block(at: Value) -> None:
                is_tall = f.icmp("slt", at, given["tall_blocks"])
                row = self.first_row(at)
                args = [
                    self.at(image, (row, given["row_step"])),
                    packed,
                    self.at(to, (row, operands.row)),
                    given["segment"],
                    accumulate,
                    panel.left,
                    given["row_step"],
                    operands.row,
                    table,
                    count,
                ]
                run = f.select(is_tall, panel.tall, panel.low)
                f.call_indirect(run, lt.VOID, self.signature, args)

            f.for_range(given["row_blocks"], block, at_least_once=True)
            f.if_(self.by_line, lambda: self._finish_line(unit, number))

        f.for_range(unit.lines, line, at_least_once=True)

    def _packed_taps(self, panel: _Panel, start: Value, count: Value) -> Value:
        """Return the address of `count` segments of packed taps; emit the packing if need be."""
        f, given = self.f, self.given
        depth = f.mul(count, given["segment"])
        before = f.mul(start, given["segment"])

        def pack() -> list[Value]:
            source = self.at(panel.taps, (before, given["features"]))
            self.packer.pack(source, self.piece, depth, panel.left)
            return [self.piece]

        def find() -> list[Value]:
            return [self.at(panel.packed, (before, self.columns))]

        (packed,) = f.if_(panel.is_packed, find, pack)
        return packed

    def _finish(self, unit: _Unit) -> None:
        """Emit the epilogue of a unit whose lines wait for further panels or pieces."""
        f = self.f

        def lines() -> None:
            f.for_range(unit.lines, lambda number: self._finish_line(unit, number))

        f.if_(f.icmp("eq", self.by_line, f.const(lt.I1, 0)), lines)

    def _finish_line(self, unit: _Unit, number: Value) -> None:
        """Emit the epilogue of a line of a unit."""
        f, given = self.f, self.given
        first = f.add(self._first_row(unit), f.mul(number, given["out_1"]))
        sums = self.at(self.rows, (number, self.rows_line))
        rows = (first, given["result_2"], given["out_2"])
        self.env.finish(f, sums, [unit.group, *rows, unit.column, unit.columns])
