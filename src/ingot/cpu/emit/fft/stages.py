# SPDX-License-Identifier: Apache-2.0
"""The driver of FFT stages: native functions for every size.

A phase takes its chunk of units through its stages, a round of units at a time (`run_phase`); a
stage takes the blocks of these units through its steps (`run_stage`, `steps`). Phase n of a kernel
is the driver with number n in its name. A fold may be a phase of its own (`fold_stage`).

Env holds, behind `Env`, the numbers of each phase: `Phase`, then for each of its stages `Stage` and
for each step `StepCall` and its arguments (`kernel.fft.steps`); a fold has `fold_stage.Fold`.

Invariant: chunks of a stage work on blocks of their own, in tiles of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.memory import TO_L2
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, exported, inlined, native
from ingot.native.module import Translation
from ingot.native.operations import address_of
from ingot.native.pointers import Array, Pointer, Struct, sizeof
from ingot.native.types import i64

BUFFERS, SCRATCH = 2, 2
"""Buffer slots of env, and the slot of the scratch address."""

TILES = -1
"""Stands for the slot of an area that lies behind the tiles of a chunk."""

STACK_BYTES = 1 << 18
"""Bytes of a chunk's tiles up to which they lie on the stack, where the chunks of a thread reuse
the same lines of the cache: 757x288 took 0.81 of the time, 400x144 0.85 (Sapphire Rapids, one
thread, 2026-11-30)."""

MAX_STAGES = 6
"""Stages of a kernel at most: a long real row is three, each dimension more is one."""


class Env(Struct, counts={"phases": MAX_STAGES}, is_constant=True):
    """The start of env; `phases`: bytes from here to the numbers of each phase."""

    operand: Pointer
    result: Pointer
    scratch: Pointer
    phases: Array[i64]


class Phase(Struct, is_constant=True):
    """Numbers of a phase of stages.

    `total` units, `grain` of a chunk; `round` of them go through a stage before the next one.
    `tile_bytes` is what the tiles of a chunk take, `tiles` what is before them in scratch if they
    do not lie on the stack.
    """

    total: i64
    grain: i64
    round: i64
    tiles: i64
    tile_bytes: i64
    stages: i64


class Stage(Struct, is_constant=True):
    """Numbers of a stage.

    For its source and target: the slot of env that holds the area's address (or TILES), bytes
    within, from one outer sequence to the next, and from lane to lane. `lanes` sequences lie side
    by side, `width` in one of `blocks` blocks; a unit has `unit_blocks`. A step fetches `fetched`
    bytes of the next unit's source and target. `bytes` counts these numbers and those of the
    `steps` steps behind.
    """

    source_slot: i64
    source_offset: i64
    source_outer: i64
    source_lane: i64
    target_slot: i64
    target_offset: i64
    target_outer: i64
    target_lane: i64
    lanes: i64
    width: i64
    blocks: i64
    unit_blocks: i64
    source_fetched: i64
    target_fetched: i64
    bytes: i64
    steps: i64


StepFunction = Callable[[Pointer, Pointer, Pointer, i64, i64, Pointer], None]
"""Takes a block through a step: see `steps`."""


class StepCall(Struct, is_constant=True):
    """A step: its function, the bytes from here to the next one; its arguments follow."""

    function: StepFunction
    bytes: i64


@inlined
def area(env: Env, slot: i64, offset: i64) -> Pointer:
    """Return where an area begins: `offset` bytes behind the address in slot `slot` of env."""
    return Array[Pointer].at(env)[slot] + offset


class Round(Struct):
    """The units first..last of a chunk, which go through a stage together, in the chunk's tiles."""

    env: Env
    tiles: Pointer
    first: i64
    last: i64


@inlined
def area_of(units: Round, slot: i64, offset: i64) -> Pointer:
    """Return where an area begins: in the tiles of the chunk, or as `area` says."""
    if slot == TILES:
        return units.tiles + offset
    return area(units.env, slot, offset)


@native
def run_phase(env: Env, chunk: i64, number: i64) -> None:
    """Take the units of a chunk, `grain` at most, through all stages of phase `number`."""
    phase = Phase.at(env + env.phases[number])
    units = Round.on_stack()
    units.env = env
    stack = Array[i64].on_stack((STACK_BYTES + LINE_BYTES) // 8)
    units.tiles = stack + (LINE_BYTES - address_of(stack) % LINE_BYTES)
    if phase.tile_bytes > STACK_BYTES:
        units.tiles = env.scratch + phase.tiles + chunk * phase.tile_bytes
    last = min((chunk + 1) * phase.grain, phase.total)
    for first in range(chunk * phase.grain, last, phase.round):
        units.first = first
        units.last = min(first + phase.round, last)
        at = phase + sizeof(Phase)
        for _ in range(phase.stages):
            stage = Stage.at(at)
            run_stage(units, stage)
            at = at + stage.bytes


@native
def run_stage(units: Round, stage: Stage) -> None:
    """Take the blocks of a round through a stage, each through all steps."""
    source = area_of(units, stage.source_slot, stage.source_offset)
    target = area_of(units, stage.target_slot, stage.target_offset)
    for block in range(units.first * stage.unit_blocks, units.last * stage.unit_blocks):
        outer = block // stage.blocks
        number = block % stage.blocks
        lane = number * stage.width
        first = source + outer * stage.source_outer + lane * stage.source_lane
        result = target + outer * stage.target_outer + lane * stage.target_lane
        left = min(stage.lanes - lane, stage.width)
        share = number * stage.steps
        following = source + (outer + 1) * stage.source_outer + share * stage.source_fetched
        behind = target + (outer + 1) * stage.target_outer + share * stage.target_fetched
        at = stage + sizeof(Stage)
        for _ in range(stage.steps):
            # Memory is read while registers are busy: each step fetches its share of the next unit.
            fetch(following, stage.source_fetched)
            fetch(behind, stage.target_fetched)
            following = following + stage.source_fetched
            behind = behind + stage.target_fetched
            step = StepCall.at(at)
            step.function(units.tiles, first, result, lane, left, step + sizeof(StepCall))
            at = at + step.bytes


@inlined
def fetch(start: Pointer, size: i64) -> None:
    """Bring `size` bytes to the L2 cache."""
    for offset in range(0, size, LINE_BYTES):
        fetch_line(start + offset)


@Vectors[[Pointer], None]
def fetch_line(f: FunctionBuilder, address: Value) -> None:
    """Bring a line to the L2 cache."""
    # A burst into the L1 cache would take its line buffers.
    f.prefetch(address, to=TO_L2)


def stage_symbol(number: int) -> str:
    """Return the driver of stages that are phase `number`."""
    return f"fft_stage_{number}"


def _driver(number: int) -> Callable[[Env, i64], None]:
    @exported(stage_symbol(number))
    def driver(env: Env, chunk: i64) -> None:
        run_phase(env, chunk, number)

    return driver


def emit_stages(module: ModuleBuilder) -> None:
    """Emit the drivers of stages."""
    Translation(module).add(*map(_driver, range(MAX_STAGES)))
