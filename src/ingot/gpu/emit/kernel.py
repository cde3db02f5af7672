# SPDX-License-Identifier: Apache-2.0
"""GPU kernels as LLVM functions: the schedule's strategy says who emits the body (`EMITTERS`)."""

from __future__ import annotations

from collections.abc import Mapping

from ingot.gpu.emit.contractions import ContractionEmitter
from ingot.gpu.emit.function import SharedMemory, open_function
from ingot.gpu.emit.groups import BlockRowsEmitter, ColumnsEmitter, WarpRowsEmitter
from ingot.gpu.emit.scans import WarpScanEmitter
from ingot.gpu.emit.tensor_cores import TensorCoreEmitter
from ingot.gpu.emit.threads import InOrderEmitter, ThreadEmitter
from ingot.gpu.emit.transposes import TransposeEmitter
from ingot.gpu.schedule.strategies import (
    BlockRows,
    Columns,
    InOrder,
    Stage,
    Strategy,
    TensorCores,
    Threads,
    TiledContraction,
    TransposeTiles,
    WarpRows,
    WarpScan,
)
from ingot.llvm.builder import ModuleBuilder

EMITTERS: Mapping[type[Strategy], type[ThreadEmitter | ContractionEmitter]] = {
    Threads: ThreadEmitter,
    InOrder: InOrderEmitter,
    WarpScan: WarpScanEmitter,
    WarpRows: WarpRowsEmitter,
    BlockRows: BlockRowsEmitter,
    Columns: ColumnsEmitter,
    TransposeTiles: TransposeEmitter,
    TiledContraction: ContractionEmitter,
    TensorCores: TensorCoreEmitter,
}
"""Who emits the work of a thread, by the strategy."""


def emit_stage(module: ModuleBuilder, symbol: str, stage: Stage, sizes: tuple[str, ...]) -> int:
    """Emit a stage into `module`; return the bytes of shared memory that it has."""
    f, values = open_function(module, symbol, stage, sizes)
    shared = SharedMemory(module, symbol)
    EMITTERS[type(stage.strategy)](f, values, shared, stage).emit()
    f.ret()
    return shared.bytes
