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
from functools import partial

from ingot.cpu.emit.contraction.epilogue import emit_epilogue
from ingot.cpu.emit.contraction.microkernel import Matrix
from ingot.cpu.emit.contraction.packing import Packer, Panels, Span, cell_type
from ingot.cpu.emit.contraction.patches import PatchPacker
from ingot.cpu.emit.contraction.register_blocks import Matrices, RegisterBlocks
from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, for_units, open_kernel
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel.contraction.micro_blocks import MicroBlock
from ingot.kernel.contraction.operands import oriented, stride
from ingot.kernel.contraction.plan import ContractionPlan
from ingot.kernel.contraction.rhs_placement import DOTS
from ingot.kernel.contraction.schedule import is_split
from ingot.kernel.ir import ContractionKernel, Patches
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.index import Condition
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import FunctionRef, Value
from ingot.support.records import record


def emit_contraction_kernel(
    module: ModuleBuilder,
    symbol: str,
    kernel: ContractionKernel,
    plan: ContractionPlan,
    target: TargetSpec,
) -> EmittedKernel:
    """Emit the functions of a contraction kernel into `module`."""
    assert not kernel.accumulate.is_complex, "products of complex matrices have drivers"
    schedule, count = plan.schedule, len(kernel.buffers)
    epilogue = None
    if plan.epilogue is not None:
        epilogue = emit_epilogue(module, f"{symbol}_epilogue", kernel, plan.epilogue, target)
    if schedule.swapped:
        kernel = oriented(kernel)
    f, emitter, chunk = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    unit = UnitEmitter(emitter, kernel, plan, target, epilogue)
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


Blocks = tuple[MicroBlock, ...]
"""The register blocks of a row block: the widest one, then that of columns left over."""


class UnitEmitter:
    """Emits the units of one kernel into one function."""

    def __init__(
        self,
        emitter: ValueEmitter,
        kernel: ContractionKernel,
        plan: ContractionPlan,
        target: TargetSpec,
        epilogue: FunctionRef | None,
    ) -> None:
        """Emit `kernel` as `plan` says, into the emitter's function."""
        self.f = emitter.f
        self.emitter = emitter
        self.kernel = kernel
        self.plan, self.schedule = plan, plan.schedule
        self.epilogue = epilogue
        self.cell = cell_type(kernel.accumulate)
        self.packer = Packer(emitter, kernel.accumulate, self.schedule.lanes)
        self.is_split = is_split(kernel, self.schedule.k_block)
        self.buffers = self._buffers()
        is_direct = self.schedule.rhs == "direct"
        self.blocks = RegisterBlocks(
            self.f,
            kernel.accumulate,
            self.schedule.lanes,
            None if is_direct else self.schedule.columns,
            target.has_fma,
            {},
            self.is_split,
            self.schedule.store_direct,
        )

    def _buffers(self) -> dict[str, Value]:
        schedule, plan = self.schedule, self.plan
        sizes: dict[str, int] = {}
        if schedule.pack_lhs:
            # Patches may write a vector past the end.
            along = schedule.rows * plan.lhs_row + schedule.lanes
            sizes["lhs"] = along if self._is_along else plan.depth * plan.lhs_step
        if schedule.rhs not in ("direct", "dots"):
            sizes["rhs"] = schedule.n_block * plan.depth
        if self.epilogue is not None:
            height = schedule.m_block if self.is_split else schedule.rows
            # The epilogue may load lanes past the last row.
            sizes["tile"] = height * schedule.n_block + 2 * schedule.lanes
        return {name: self.f.alloca(self.cell, size, LINE_BYTES) for name, size in sizes.items()}

    @property
    def _is_along(self) -> bool:
        """Whether rows of the lhs are packed along k."""
        return self.kernel.patches is None or self.kernel.patches.along_k

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
        rows, (first_blocks, *tails) = schedule.rows, self.plan.row_blocks
        whole = f.imul(f.idiv(block.m.count, rows), rows)

        def at(blocks: Blocks) -> Callable[[Value], None]:
            return lambda first: self._row_block(piece, first, blocks)

        f.for_range(whole, at(first_blocks), step=rows)
        if isinstance(self.kernel.m.extent, int):
            for blocks in tails:
                f.if_(
                    f.ilt(whole, block.m.count),
                    lambda blocks=blocks: self._row_block(piece, f.as_value(whole), blocks),
                )
            return
        for blocks in tails:
            height = blocks[0].rows
            left = f.isub(block.m.count, whole)
            following = f.iadd(whole, f.imul(f.idiv(left, height), height))
            f.for_range(following, at(blocks), start=whole, step=height)
            whole = following

    def _row_block(self, piece: Piece, first: Value, blocks: Blocks) -> None:
        """Emit a row block from row `first` of a unit: its products, then its epilogue."""
        f, block, height = self.f, piece.block, blocks[0].rows
        m = Span(block.m.axis, f.iadd(block.m.start, first), height)
        lhs = self._lhs(m, piece.k)
        result = self._result(m, block.n, first)
        self._panels(piece, (lhs, piece.rhs, result), blocks)
        if self.epilogue is not None:
            reference = self.epilogue
            batch = self.emitter.names[self.kernel.batch.name]
            args = [result.address]
            args += [
                f.as_value(item)
                for item in (batch, m.start, height, 1, block.n.start, block.n.count)
            ]
            f.if_(piece.last, lambda: f.call(reference, [f.params[0], *args]) and None)

    def _panels(self, piece: Piece, matrices: Matrices, blocks: Blocks) -> None:
        """Emit the register blocks of one row block: whole ones, then the rest."""
        f, (widest, *rest), columns = self.f, blocks, blocks[0].columns
        n, k = piece.block.n, piece.k
        lhs, rhs, result = matrices
        is_dots = self.schedule.rhs in DOTS

        def run(block: MicroBlock, first: IndexValue, left: IndexValue) -> None:
            panel = f.gep(rhs.address, f.imul(first, rhs.panel_step), self.cell)
            sums = f.gep(result.address, first, self.cell)
            at = (lhs, rhs.at(panel), result.at(sums))
            if not is_dots:
                self.blocks.multiply(block, at, k.count, piece.accumulate, left)
                return
            depth = self.kernel.k.extent
            is_even = isinstance(depth, int) and depth % self.schedule.lanes == 0
            self.blocks.dot_products(block, at, k.count, is_even=is_even)

        whole = f.imul(f.idiv(n.count, columns), columns)
        f.for_range(whole, lambda first: run(widest, first, 0), step=columns)
        left = f.isub(n.count, whole)
        for block in rest:
            behind = partial(run, block, left=left)
            if is_dots and not isinstance(self.kernel.n.extent, int):
                f.for_range(n.count, behind, start=whole)
            else:
                f.if_(f.igt(left, 0), partial(behind, whole))

    # ---- operands and results

    def _address(self, buffer: int, where: int | Dim) -> Value:
        f = self.f
        return f.gep(self.emitter.buffers[buffer], self.emitter.index(where), self.cell)

    def _step(self, where: int | Dim, axis: str) -> IndexValue:
        step = stride(where, axis)
        assert step is not None, "the schedule reads only linear operands in place"
        return self.emitter.index(step)

    def _lhs(self, m: Span, k: Span) -> Matrix:
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
        if kernel.patches is not None:
            self._patches(kernel.patches, m, k)
        else:
            self.packer.rows(kernel.lhs, buffer, m, k, self.plan.lhs_row)
        return Matrix(buffer, self.plan.lhs_row, self.plan.lhs_step)

    def _patches(self, patches: Patches, m: Span, k: Span) -> None:
        inner = patches.k[-1].extent if patches.k else 1
        depth = self.schedule.k_block
        is_whole = isinstance(inner, int) and depth is not None and depth % max(inner, 1) == 0
        packer = PatchPacker(
            self.packer,
            self.kernel.lhs,
            patches,
            is_whole or not self.is_split,
        )
        step = self.plan.lhs_row if patches.along_k else self.plan.lhs_step
        packer.pack(self.buffers["lhs"], m, k, step)

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
            step = self.plan.depth
            self.packer.rows(kernel.rhs, buffer, block.n, k, step)
            return Matrix(buffer, step, 1, step)
        is_transposed = schedule.rhs == "transposed"
        panels = Panels(schedule.columns, self.plan.depth, is_transposed)
        self.packer.panels(kernel.rhs, buffer, block.n, k, panels)
        return Matrix(buffer, schedule.columns, 1, self.plan.depth)

    def _result(self, m: Span, n: Span, first: Value) -> Matrix:
        if self.epilogue is None:
            (store,) = self.kernel.stores
            self.emitter.names.update({m.axis: m.start, n.axis: n.start})
            address = self._address(store.buffer, store.index)
            return Matrix(address, self._step(store.index, m.axis), 1)
        step = self.schedule.n_block
        row = self.f.imul(first, step) if self.is_split else 0
        return Matrix(self.f.gep(self.buffers["tile"], row, self.cell), step, 1)
