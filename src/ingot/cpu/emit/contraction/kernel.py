# SPDX-License-Identifier: Apache-2.0
"""Contraction kernels as LLVM functions: `void k(ptr env, i64 chunk)`.

A chunk runs its units: a block of rows and columns of one batch element. For each piece of k the
unit packs what the schedule says, then runs micro-kernels row block by row block. Sums go straight
to the result, or to a tile on the stack; from there the epilogue, a function of its own, evaluates
the kernel's stores while the tile is in the L1 cache.

Invariant: a unit writes its own elements of the results and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.cpu.emit.contraction.epilogue import emit_epilogue
from ingot.cpu.emit.contraction.microkernel import Matrix
from ingot.cpu.emit.contraction.packing import Packer, Panels, Span, cell_type
from ingot.cpu.emit.contraction.patches import PatchPacker
from ingot.cpu.emit.contraction.register_blocks import UNKNOWN_WIDTH, RegisterBlocks
from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, for_units, open_kernel
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel.contraction.operands import oriented, stride
from ingot.kernel.contraction.rhs_placement import DOTS
from ingot.kernel.contraction.schedule import ContractionSchedule, is_split
from ingot.kernel.ir import ContractionKernel, Patches
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.index import Condition
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import FunctionRef, Value
from ingot.support.records import record

TAIL_ROWS = (4, 1)
"""Heights of the register blocks for rows left over when their number is not known."""


def emit_contraction_kernel(
    module: ModuleBuilder,
    symbol: str,
    kernel: ContractionKernel,
    schedule: ContractionSchedule,
    target: TargetSpec,
) -> EmittedKernel:
    """Emit the functions of a contraction kernel into `module`."""
    assert not kernel.accumulate.is_complex, "products of complex matrices have drivers"
    if schedule.swapped:
        kernel = oriented(kernel)
    count = len(kernel.buffers)
    epilogue = None
    if not schedule.store_direct:
        epilogue = emit_epilogue(module, f"{symbol}_epilogue", kernel, schedule, target)
    f, emitter, chunk = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    unit = UnitEmitter(emitter, kernel, schedule, target, epilogue)
    if schedule.grain == 1:
        unit.emit(chunk)
    else:
        for_units(f, chunk, schedule.grain, emitter.index(schedule.units), unit.emit)
    f.ret()
    return EmittedKernel(
        (Phase(symbol, schedule.chunks),),
        count,
        kernel.symbols,
        templates=tuple(unit.blocks.shared.values()),
    )


@record
class Block:
    """A rectangle of the result."""

    m: Span
    n: Span


@record
class Piece:
    """The products of one piece of k over a unit.

    Attributes:
        block: the unit's rows and columns.
        k: the piece.
        rhs: the rhs, packed or where it lies.
        accumulate: whether the sums go on from earlier pieces.
        last: whether no piece follows.
    """

    block: Block
    k: Span
    rhs: Matrix
    accumulate: Condition
    last: Condition


class UnitEmitter:
    """Emits the units of one kernel into one function."""

    def __init__(
        self,
        emitter: ValueEmitter,
        kernel: ContractionKernel,
        schedule: ContractionSchedule,
        target: TargetSpec,
        epilogue: FunctionRef | None,
    ) -> None:
        """Emit `kernel` as `schedule` says, into the emitter's function."""
        self.f = emitter.f
        self.emitter = emitter
        self.kernel = kernel
        self.schedule = schedule
        self.target = target
        self.epilogue = epilogue
        self.cell = cell_type(kernel.accumulate)
        self.packer = Packer(emitter, kernel.accumulate, schedule.lanes)
        self.is_split = is_split(kernel, schedule.k_block)
        depth = schedule.k_block or 0
        self.padded_depth = -(-depth // schedule.lanes) * schedule.lanes
        self.buffers = self._buffers()
        self.blocks = RegisterBlocks(kernel, schedule, target)

    def _buffers(self) -> dict[str, Value]:
        schedule = self.schedule
        sizes: dict[str, int] = {}
        if self.kernel.patches is not None and not self.kernel.patches.along_k:
            sizes["lhs"] = self.padded_depth * self._patch_rows
        elif schedule.pack_lhs:
            # Patches may write a vector too much.
            sizes["lhs"] = schedule.rows * self._lhs_step + schedule.lanes
        if schedule.rhs not in ("direct", "dots"):
            sizes["rhs"] = schedule.n_block * self.padded_depth
        if self.epilogue is not None:
            height = schedule.m_block if self.is_split else schedule.rows
            # The epilogue may load lanes behind the last row.
            sizes["tile"] = height * schedule.n_block + 2 * schedule.lanes
        return {name: self.f.alloca(self.cell, size, LINE_BYTES) for name, size in sizes.items()}

    @property
    def _lhs_step(self) -> int:
        # Odd in cache lines, so that rows do not fall into one cache set.
        line = max(1, 512 // self.cell.bits)
        return (-(-self.padded_depth // line) | 1) * line

    @property
    def _patch_rows(self) -> int:
        """Lanes that hold a register block's rows."""
        return 1 << (self.schedule.rows - 1).bit_length()

    # ---- loops

    def emit(self, unit: Value) -> None:
        """Emit unit number `unit`."""
        f, schedule, kernel = self.f, self.schedule, self.kernel
        m_extent = self.emitter.index(kernel.m.extent)
        n_extent = self.emitter.index(kernel.n.extent)
        row_blocks = f.iceildiv(m_extent, schedule.m_block)
        column_blocks = f.iceildiv(n_extent, schedule.n_block)
        number, row_block = self._divide(unit, row_blocks)
        batch, column_block = self._divide(number, column_blocks)
        self.emitter.names[kernel.batch.name] = 0 if kernel.batch.extent == 1 else batch
        block = Block(
            Span.of_block(f, kernel.m.name, row_block, schedule.m_block, m_extent),
            Span.of_block(f, kernel.n.name, column_block, schedule.n_block, n_extent),
        )
        k_extent = self.emitter.index(kernel.k.extent)
        depth = schedule.k_block
        if not self.is_split or depth is None:
            self._piece(block, Span(kernel.k.name, 0, k_extent), False, True)
            return

        def piece(start: Value) -> None:
            following = f.iadd(start, depth)
            count = f.isub(f.imin(following, k_extent), start)
            last = f.ile(k_extent, following)
            part = Span(kernel.k.name, start, count, depth)
            self._piece(block, part, f.igt(start, 0), last)

        # An empty k still has one piece: its sums are zero.
        f.for_range(f.imax(k_extent, 1), piece, step=depth, at_least_once=True)

    def _divide(self, number: IndexValue, divisor: IndexValue) -> tuple[IndexValue, IndexValue]:
        return self.f.idiv(number, divisor), self.f.irem(number, divisor)

    def _piece(self, block: Block, k: Span, accumulate: Condition, last: Condition) -> None:
        """Emit the products of one piece of k over a unit."""
        f, schedule = self.f, self.schedule
        piece = Piece(block, k, self._rhs(block, k), accumulate, last)
        rows = schedule.rows
        whole = f.imul(f.idiv(block.m.count, rows), rows)

        def at(height: int) -> Callable[[Value], None]:
            return lambda first: self._row_block(piece, first, height)

        f.for_range(whole, at(rows), step=rows)
        extent = self.kernel.m.extent
        if isinstance(extent, int):
            height = extent % rows
            if height:
                f.if_(
                    f.ilt(whole, block.m.count),
                    lambda: self._row_block(piece, f.as_value(whole), height),
                )
            return
        for height in TAIL_ROWS:
            if height < rows:
                left = f.isub(block.m.count, whole)
                following = f.iadd(whole, f.imul(f.idiv(left, height), height))
                f.for_range(following, at(height), start=whole, step=height)
                whole = following

    def _row_block(self, piece: Piece, first: Value, height: int) -> None:
        """Emit `height` rows from row `first` of a unit: its products, then its epilogue."""
        f, block = self.f, piece.block
        m = Span(block.m.axis, f.iadd(block.m.start, first), height)
        lhs = self._lhs(m, piece.k, height)
        result = self._result(m, block.n, first)
        self._panels(piece, (lhs, piece.rhs, result), height)
        if self.epilogue is not None:
            reference = self.epilogue
            batch = self.emitter.names[self.kernel.batch.name]
            args = [result.address]
            args += [
                f.as_value(item)
                for item in (batch, m.start, height, 1, block.n.start, block.n.count)
            ]
            f.if_(piece.last, lambda: f.call(reference, [f.params[0], *args]) and None)

    def _panels(self, piece: Piece, matrices: tuple[Matrix, Matrix, Matrix], height: int) -> None:
        """Emit the register blocks of one row block: whole ones, then the rest."""
        f, columns = self.f, self.blocks.width(height)
        n, k = piece.block.n, piece.k
        lhs, rhs, result = matrices

        def run(first: IndexValue, width: int, left: IndexValue) -> None:
            panel = f.gep(rhs.address, f.imul(first, rhs.panel_step), self.cell)
            sums = f.gep(result.address, first, self.cell)
            if self.schedule.rhs in DOTS:
                dots = self.blocks.dot_products(matrices, height, width)
                steps = (lhs.row_step, rhs.row_step, result.row_step)
                dots.call(f, (lhs.address, panel, sums), k.count, steps)
                return
            micro = self.blocks.micro_kernel(matrices, height, width)
            operands = (lhs, rhs.at(panel), result.at(sums))
            micro.call(f, operands, k.count, piece.accumulate, left)

        whole = f.imul(f.idiv(n.count, columns), columns)
        f.for_range(whole, lambda first: run(first, columns, 0), step=columns)
        extent = self.kernel.n.extent
        left = f.isub(n.count, whole)
        if isinstance(extent, int):
            width = extent % columns
            if width:
                f.if_(f.igt(left, 0), lambda: run(whole, width, left))
        elif self.schedule.rhs in DOTS:
            f.for_range(n.count, lambda first: run(first, 1, 0), start=whole)
        else:
            f.if_(f.igt(left, 0), lambda: run(whole, UNKNOWN_WIDTH, left))

    # ---- operands and results

    def _address(self, buffer: int, where: int | Dim) -> Value:
        f = self.f
        return f.gep(self.emitter.buffers[buffer], self.emitter.index(where), self.cell)

    def _step(self, where: int | Dim, axis: str) -> IndexValue:
        step = stride(where, axis)
        assert step is not None, "the schedule reads only linear operands in place"
        return self.emitter.index(step)

    def _lhs(self, m: Span, k: Span, height: int) -> Matrix:
        kernel = self.kernel
        if not self.schedule.pack_lhs:
            self.emitter.names.update({m.axis: m.start, k.axis: k.start})
            where = kernel.lhs.payload.index
            return Matrix(
                self._address(kernel.lhs.payload.buffer, where),
                self._step(where, m.axis),
                self._step(where, k.axis),
            )
        buffer = self.buffers["lhs"]
        rows = Span(m.axis, m.start, height)
        if kernel.patches is not None:
            return self._patches(kernel.patches, rows, k)
        self.packer.rows(kernel.lhs, buffer, rows, k, self._lhs_step)
        return Matrix(buffer, self._lhs_step, 1)

    def _patches(self, patches: Patches, m: Span, k: Span) -> Matrix:
        inner = patches.k[-1].extent if patches.k else 1
        depth = self.schedule.k_block
        is_whole = isinstance(inner, int) and depth is not None and depth % max(inner, 1) == 0
        packer = PatchPacker(
            self.packer,
            self.kernel.lhs,
            patches,
            is_whole or not self.is_split,
        )
        buffer = self.buffers["lhs"]
        if patches.along_k:
            packer.pack(buffer, m, k, self._lhs_step)
            return Matrix(buffer, self._lhs_step, 1)
        packer.pack(buffer, m, k, self._patch_rows)
        return Matrix(buffer, 1, self._patch_rows)

    def _rhs(self, block: Block, k: Span) -> Matrix:
        kernel, schedule = self.kernel, self.schedule
        if schedule.rhs in ("direct", "dots"):
            self.emitter.names.update({block.n.axis: block.n.start, k.axis: k.start})
            where = kernel.rhs.payload.index
            address = self._address(kernel.rhs.payload.buffer, where)
            if schedule.rhs == "direct":
                return Matrix(address, self._step(where, k.axis), 1)
            step = self._step(where, block.n.axis)
            return Matrix(address, step, 1, step)
        buffer = self.buffers["rhs"]
        if schedule.rhs == "packed dots":
            step = self.padded_depth
            self.packer.rows(kernel.rhs, buffer, block.n, k, step)
            return Matrix(buffer, step, 1, step)
        is_transposed = schedule.rhs == "transposed"
        form = Panels(schedule.columns, self.padded_depth, is_transposed)
        self.packer.panels(kernel.rhs, buffer, block.n, k, form)
        return Matrix(buffer, schedule.columns, 1, self.padded_depth)

    def _result(self, m: Span, n: Span, first: Value) -> Matrix:
        if self.epilogue is None:
            (store,) = self.kernel.stores
            self.emitter.names.update({m.axis: m.start, n.axis: n.start})
            address = self._address(store.buffer, store.index)
            return Matrix(address, self._step(store.index, m.axis), 1)
        step = self.schedule.n_block
        row = self.f.imul(first, step) if self.is_split else 0
        return Matrix(self.f.gep(self.buffers["tile"], row, self.cell), step, 1)
