# SPDX-License-Identifier: Apache-2.0
"""The strategy of Fourier transforms: code of the library for every length, batch and rank.

The stages of an `FftKernel` and their steps (`kernel.fft`) are numbers in env, which drivers walk.
Invariant: what depends on sizes is in env, the addresses of tables included.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.fft import fold_stage as folds
from ingot.cpu.emit.fft import stages as drivers
from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel, Numbers, Phase, Slot
from ingot.cpu.emit.template import Template
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.request import Request
from ingot.hlo import dim
from ingot.hlo.dim import Dim, ceil_div, round_up
from ingot.hlo.dtype import C64
from ingot.kernel.driver_parameters import SCRATCH_CHUNKS, Chunks
from ingot.kernel.fft.build import (
    FOLD_BLOCK,
    Area,
    FoldStage,
    Stage,
    Strides,
    fold_strides,
    is_of_chunk,
    plan_fft,
)
from ingot.kernel.fft.steps import (
    Argument,
    Code,
    Side,
    Step,
    Table,
    fold_step,
    stage_steps,
    tile_bytes,
)
from ingot.kernel.fft.tables import table
from ingot.kernel.ir import FftKernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.optimization import SHORT
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, F64, Type, vector
from ingot.native.pointers import sizeof
from ingot.support.lazy import function_at_home
from ingot.support.records import record, replace

_emit_step = function_at_home("ingot.cpu.emit.fft.steps", "emit_step")

CHUNK_WORK = 60_000
"""Floating-point operations of a chunk at least: some ten microseconds."""


COMMON_RADICES = (8, 4, 2, 3, 5, 10, 12, 15)
"""Radices whose passes are loaded with the library: those of powers of 2, and of round lengths."""

_SOURCES: tuple[Side, ...] = ("tile", "columns")
_TARGETS: tuple[Side, ...] = ("tile", "columns", "grid")

PASSES = (
    *(Code("first", source, "tile") for source in (*_SOURCES, "rows")),
    Code("pass", "tile", "tile"),
    *(Code("last", "tile", to) for to in (*_TARGETS, "rows")),
    *(Code("only", source, to) for source, to in product(_SOURCES, _TARGETS)),
)
MOVES = (
    Code("move", "rows", "tile"),
    Code("move", "tile", "rows"),
    Code("real", "rows", "tile"),
    Code("real", "tile", "rows"),
    Code("extend", "tile", "tile"),
    Code("pack", "tile", "tile"),
    Code("unpack", "tile", "tile"),
    Code("pack", "sequence", "sequence"),
    Code("unpack", "sequence", "sequence"),
)


def match_transform(request: Request) -> LibraryKernel:
    """Return how the library runs a Fourier transform."""
    return _Maker(request.target, request.kernel_as(FftKernel)).make()


def common_transforms(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what transforms in single precision need, where there are enough of them."""
    steps = _Steps(target, vector(F32, target.vector_bits // F32.bits))
    yield _stages(target)
    yield steps.folds()
    for code in MOVES:
        yield steps.part(code)
    for radix, code in product(COMMON_RADICES, PASSES):
        yield steps.part(replace(code, radix=radix))


def _stages(target: TargetSpec) -> LibraryPart:
    return library_part(target, Template("fft_stages", drivers.emit_stages, how=SHORT))


@record
class _Steps:
    """The library's steps in vectors of one type."""

    target: TargetSpec
    type: Type

    @property
    def name(self) -> str:
        """The start of all symbols."""
        return f"fft_{self.type.element.suffix}x{self.type.lanes}"

    def symbol(self, code: Code) -> str:
        """Return a step's function."""
        name = f"{self.name}_{code.kind}{code.radix or ''}_{code.source}_{code.target}"
        return name.replace(" ", "_")

    def part(self, code: Code) -> LibraryPart:
        """Return the part that has a step.

        Each has its own, for a transform takes a few. With the 12 passes of a radix in one part and
        the nine moves in another the first transform of a machine, 512x4096, took 222 ms of a CPU
        instead of 99 (2026-11-28).
        """

        def define(module: ModuleBuilder) -> None:
            _emit_step(module, self.symbol(code), code, self.type, self.target.has_fma)

        return library_part(self.target, Template(self.symbol(code), define))

    def folds(self) -> LibraryPart:
        """Return the part that has the drivers of folds."""
        name = f"{self.name}_fold"

        def define(module: ModuleBuilder) -> None:
            folds.emit_folds(module, name, self.type, self.target.has_fma)

        return library_part(self.target, Template(name, define, how=SHORT))


@record
class _Made:
    """A stage, and what blocks of its sequences there are.

    Attributes:
        stage: the stage.
        lanes, width, blocks: sequences side by side, those of a block, and how many blocks.
        block_work: floating-point operations of a block.
        tile_bytes: bytes of a tile.
    """

    stage: Stage | FoldStage
    lanes: int | Dim
    width: int
    blocks: int | Dim
    block_work: int
    tile_bytes: int

    @staticmethod
    def of(stage: Stage | FoldStage, widest: int, scalar_bytes: int) -> _Made:
        """Return what there is of a stage in vectors of `widest` lanes at most."""
        if isinstance(stage, FoldStage):
            return _Made(stage, 1, widest, 1, 5 * stage.length, 0)
        width = _lanes(stage, widest)
        blocks = ceil_div(stage.lanes, width)
        work = 5 * stage.length * stage.length.bit_length() * width
        return _Made(
            stage, stage.lanes, width, blocks, work, tile_bytes(stage, width, scalar_bytes)
        )

    @property
    def elements(self) -> int:
        """Elements of an outer sequence, whose lanes are of known number."""
        assert isinstance(self.lanes, int)
        return self.stage.length * self.lanes + isinstance(self.stage, FoldStage)

    @property
    def sequence_work(self) -> int:
        """Floating-point operations of an outer sequence."""
        assert isinstance(self.blocks, int)
        return self.block_work * self.blocks


@record
class _ChunkMemory:
    """The memory of a chunk: two tiles, then two sequences if stages follow each other there.

    Attributes:
        tiles: bytes of both tiles.
        sequence: bytes of a sequence; 0: a stage goes through blocks of the kernel's own areas.
    """

    tiles: int
    sequence: int

    @property
    def bytes(self) -> int:
        """All bytes."""
        return self.tiles + 2 * self.sequence

    def offset(self, area: Area) -> int:
        """Return where one of the two sequences begins."""
        return self.tiles + self.sequence * (area == "chunk second")


class _Maker:
    """Makes one kernel: collects the slots, tables and parts of its stages."""

    def __init__(self, target: TargetSpec, kernel: FftKernel) -> None:
        self.target = target
        self.kernel = kernel
        self.scalar = F32 if kernel.element is C64 else F64
        self.widest = target.vector_bits // self.scalar.bits
        self.plan = plan_fft(kernel, vector_bits=target.vector_bits)
        pair = 2 * self.scalar.bytes
        self.second = round_up(self.plan.first * pair, LINE_BYTES)
        self.tiles = self.second + round_up(self.plan.second * pair, LINE_BYTES)
        self.tables: dict[str, Numbers] = {}
        self.parts: dict[str, LibraryPart] = {}

    def make(self) -> LibraryKernel:
        """Return the kernel."""
        phases: list[Phase] = []
        offsets: list[Slot] = []
        slots: list[Slot] = []
        scratch: int | Dim = self.tiles
        start = drivers.BUFFERS + 1 + drivers.MAX_STAGES
        for number, stages in enumerate(self.plan.phases):
            offsets.append((start + len(slots)) * SLOT_BYTES)
            first = stages[0]
            if len(stages) == 1 and isinstance(first, FoldStage):
                phase, values = self._fold(first, number)
            else:
                phase, values, chunk_bytes = self._stages(stages, number)
                if chunk_bytes > drivers.STACK_BYTES:
                    scratch = dim.maximum(scratch, self.tiles + phase.chunks * chunk_bytes)
            phases.append(phase)
            slots.extend(values)
        offsets.extend([0] * (drivers.MAX_STAGES - len(offsets)))
        emitted = EmittedKernel(
            tuple(phases),
            drivers.BUFFERS,
            (*offsets, *slots),
            scratch,
            tables=self.tables,
        )
        return LibraryKernel(emitted, tuple(self.parts.values()))

    def _need(self, part: LibraryPart) -> LibraryPart:
        self.parts[part.name] = part
        return part

    # ---- stages

    def _stages(
        self, stages: Sequence[Stage | FoldStage], number: int
    ) -> tuple[Phase, list[Slot], int]:
        """Return the phase of stages, its slots, and the bytes of a chunk's memory.

        A unit is a block of a single stage, or a sequence that goes through all stages.
        """
        self._need(_stages(self.target))
        by_sequence = len(stages) > 1
        made = [_Made.of(stage, self.widest, self.scalar.bytes) for stage in stages]
        units = stages[0].outer if by_sequence else stages[0].outer * made[0].blocks
        work = sum(one.sequence_work for one in made) if by_sequence else made[0].block_work
        shared = Chunks.of(units, SCRATCH_CHUNKS, ceil_div(CHUNK_WORK, work))
        longest = max(one.elements for one in made) * 2 * self.scalar.bytes if by_sequence else 0
        tiles = 2 * max(one.tile_bytes for one in made)
        memory = _ChunkMemory(tiles, round_up(longest, LINE_BYTES))
        values: Mapping[str, Slot] = {
            **{"total": units, "grain": shared.grain, "round": 1 if by_sequence else shared.grain},
            **{"tiles": self.tiles, "tile_bytes": memory.bytes, "stages": len(stages)},
        }
        slots: list[Slot] = [values[name] for name in drivers.Phase.c_layout.names]
        for one in made:
            slots.extend(self._stage(one, memory))
        return Phase(drivers.stage_symbol(number), shared.count), slots, memory.bytes

    def _stage(self, made: _Made, memory: _ChunkMemory) -> list[Slot]:
        """Return a stage's slots, those of its steps behind."""
        stage, by_sequence = made.stage, memory.sequence > 0
        steps = _Steps(self.target, vector(self.scalar, made.width))
        if isinstance(stage, FoldStage):
            planned = (fold_step(stage),)
            source, target = fold_strides(stage)
            reads_real = writes_real = False
        else:
            planned = stage_steps(stage, made.width, self.scalar.bytes, self.kernel.inverse)
            source, target = stage.source, stage.target
            reads_real, writes_real = stage.load == "real", stage.store == "real"
        behind = [slot for step in planned for slot in self._step(steps, step)]
        read = self._side("source", source, memory, is_real=reads_real)
        written = self._side("target", target, memory, is_real=writes_real)
        # Each step of a block fetches a share of the next sequence. Of many at once that took 1.15
        # of the time (500x144). Fetching the target too 512x4096 took 0.62, 500x1000 0.84, 500x512
        # 0.87 (Sapphire Rapids, one thread, 2026-11-30).
        shares = made.blocks * len(planned)
        fetched = {
            f"{side}_fetched": dim.floordiv(at[f"{side}_outer"], shares) if by_sequence else 0
            for side, at in (("source", read), ("target", written))
        }
        values: Mapping[str, Slot] = {
            **read,
            **written,
            **fetched,
            **{"lanes": made.lanes, "width": made.width, "blocks": made.blocks},
            "unit_blocks": made.blocks if by_sequence else 1,
            "bytes": sizeof(drivers.Stage) + len(behind) * SLOT_BYTES,
            "steps": len(planned),
        }
        return [*(values[name] for name in drivers.Stage.c_layout.names), *behind]

    def _side(
        self, side: str, strides: Strides, memory: _ChunkMemory, *, is_real: bool
    ) -> dict[str, int | Dim]:
        """Return the slots that say where the source or target of a stage lies."""
        each = self.scalar.bytes if is_real else 2 * self.scalar.bytes
        slot, offset = drivers.TILES, memory.offset(strides.area)
        if not is_of_chunk(strides.area):
            slot, offset = self._area(strides.area)
        return {
            f"{side}_slot": slot,
            f"{side}_offset": offset,
            f"{side}_outer": strides.outer * each,
            f"{side}_lane": strides.lane * each,
        }

    def _area(self, area: Area) -> tuple[int, int | Dim]:
        """Return the slot of env with the address of one of the kernel's areas, and an offset."""
        if area in ("operand", "result"):
            return int(area == "result"), 0
        return drivers.SCRATCH, self.second if area == "second" else 0

    def _step(self, steps: _Steps, step: Step) -> Iterator[Slot]:
        """Yield a step's slots: its function, their bytes, its arguments."""
        self._need(steps.part(step.code))
        names = step.code.arguments
        yield CodeSlot(steps.symbol(step.code))
        yield (2 + len(names)) * SLOT_BYTES
        for name in names:
            yield self._argument(step.values[name])

    def _argument(self, value: Argument) -> Slot:
        if isinstance(value, Table):
            return self._table(value.name, *value.sizes)
        if isinstance(value, float):
            (bits,) = struct.unpack("<q", struct.pack("<d", value))
            return bits
        return value

    def _table(self, name: str, *sizes: int) -> CodeSlot:
        symbol = "_".join(["fft", self.scalar.suffix, name, *map(str, sizes)])
        self.tables[symbol] = table(name, sizes, self.scalar is F32)
        return CodeSlot(symbol)

    def _fold(self, stage: FoldStage, number: int) -> tuple[Phase, list[Slot]]:
        """Return a fold's phase and its slots."""
        part = self._need(_Steps(self.target, vector(self.scalar, self.widest)).folds())
        (source, source_offset), (to, to_offset) = map(self._area, (stage.source, stage.target))
        half, packs = stage.length, stage.packs
        blocks = ceil_div(half, FOLD_BLOCK)
        values: Mapping[str, Slot] = {
            **{"source_slot": source, "source_offset": source_offset},
            **{"target_slot": to, "target_offset": to_offset},
            **{"half": half, "blocks": blocks},
            "low": self._table("fold_low", half, int(packs), self.widest),
            "high": self._table("fold_high", half, int(packs)),
        }
        phase = Phase(folds.fold_symbol(part.name, packs, number), stage.outer * blocks)
        return phase, [values[name] for name in folds.Fold.c_layout.names]


def _lanes(stage: Stage, widest: int) -> int:
    """Return the lanes of a stage's vectors: a power of two, no more than there is use for."""
    if not isinstance(stage.lanes, int):
        return widest
    return min(widest, 1 << (stage.lanes - 1).bit_length())
