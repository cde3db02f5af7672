# SPDX-License-Identifier: Apache-2.0
"""GPU kernels as LLVM functions: the schedule's strategy says who emits the body (`EMITTERS`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ingot.gpu.emit.contractions import ContractionEmitter
from ingot.gpu.emit.fourier import ChirpConvolutionEmitter, SequenceEmitter, SpectrumFoldEmitter
from ingot.gpu.emit.function import SharedMemory, ThreadValues, open_function
from ingot.gpu.emit.groups import BlockRowsEmitter, ColumnsEmitter, WarpRowsEmitter
from ingot.gpu.emit.scans import WarpScanEmitter
from ingot.gpu.emit.selections import SelectionEmitter
from ingot.gpu.emit.sorts import MergeRunsEmitter, SortTilesEmitter
from ingot.gpu.emit.tensor_cores import TensorCoreEmitter
from ingot.gpu.emit.threads import InOrderEmitter, SortedUpdatesEmitter, ThreadEmitter
from ingot.gpu.emit.transposes import TransposeEmitter
from ingot.gpu.schedule.strategies import (
    BlockRows,
    ChirpConvolution,
    Columns,
    InOrder,
    MergeRuns,
    Selection,
    SequenceTransforms,
    SortedUpdates,
    SortTiles,
    SpectrumFold,
    Stage,
    Strategy,
    TensorCores,
    Threads,
    TiledContraction,
    TransposeTiles,
    WarpRows,
    WarpScan,
)
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder


class Emitter(Protocol):
    """Emits the work of one thread."""

    def __init__(
        self, f: FunctionBuilder, emitter: ThreadValues, shared: SharedMemory, stage: Stage
    ) -> None:
        """Emit as `stage` says."""

    def emit(self) -> None:
        """Emit the whole stage."""


EMITTERS: Mapping[type[Strategy], type[Emitter]] = {
    Threads: ThreadEmitter,
    InOrder: InOrderEmitter,
    SortedUpdates: SortedUpdatesEmitter,
    WarpScan: WarpScanEmitter,
    WarpRows: WarpRowsEmitter,
    BlockRows: BlockRowsEmitter,
    Columns: ColumnsEmitter,
    TransposeTiles: TransposeEmitter,
    TiledContraction: ContractionEmitter,
    SortTiles: SortTilesEmitter,
    MergeRuns: MergeRunsEmitter,
    Selection: SelectionEmitter,
    SequenceTransforms: SequenceEmitter,
    ChirpConvolution: ChirpConvolutionEmitter,
    SpectrumFold: SpectrumFoldEmitter,
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
