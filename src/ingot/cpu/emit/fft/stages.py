# SPDX-License-Identifier: Apache-2.0
"""The drivers of FFT kernels: one for each phase of the plan, for every size.

Env holds, behind buffers and scratch, how many bytes each phase's numbers lie behind its start
(`MAX_STAGES` slots), then the numbers: of a phase `PHASE`, then for each of its stages `STAGE` and
for each step its function, the bytes of its slots and its arguments (`kernel.fft.steps`); of a fold
that is a phase `FOLD`. Phase n of a kernel is the driver with number n in its name.

Invariant: chunks of a stage work on blocks of their own, in tiles of their own.
"""

from __future__ import annotations

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.contraction.microkernel import DATA_CACHE
from ingot.cpu.emit.fft.fold_stage import emit_fold
from ingot.cpu.emit.fft.steps import SIGNATURE
from ingot.cpu.emit.kernel_abi import units_of_chunk
from ingot.emit.fft.butterflies import ComplexMath
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import Type
from ingot.llvm.values import Value
from ingot.support.records import record

BUFFERS, SCRATCH = 2, 2
"""Buffer slots of env, and the slot of the scratch address."""

MAX_STAGES = 6
"""Stages of a kernel at most: a long real row is three, each dimension more is one."""

PHASE = ("total", "grain", "round", "tiles", "tile_bytes", "stages")
"""Numbers of a phase: units in all and of a chunk, units that go through a stage before the next
one; where the tiles begin in scratch, and bytes of a chunk's; how many stages."""

STAGE = (
    *("source_slot", "source_offset", "source_chunk", "source_outer", "source_lane"),
    *("target_slot", "target_offset", "target_chunk", "target_outer", "target_lane"),
    *("lanes", "width", "blocks", "unit_blocks", "fetched", "bytes", "steps"),
)
"""Numbers of a stage: the slot of env that holds the area's address, bytes within, and bytes from
chunk to chunk; how many sequences lie side by side, in one block, blocks of them; blocks of a unit;
bytes of the next unit's source that a block fetches into the L2 cache, so that memory is read while
registers are busy; bytes of these slots and those of the steps; how many steps."""

TO_L2 = 2
"""How near `llvm.prefetch` brings it: a burst into the L1 cache would take its line buffers."""

FOLD = (
    *("source_slot", "source_offset", "target_slot", "target_offset"),
    *("half", "blocks", "low", "high"),
)
"""Numbers of a fold; see `fold_stage`."""

_POINTERS = frozenset({"low", "high"})


def stage_symbol(number: int) -> str:
    """Return the driver of a stage that is phase `number`."""
    return f"fft_stage_{number}"


def emit_stages(module: ModuleBuilder) -> None:
    """Emit the drivers of stages."""
    _emit_stage(module)
    for number in range(MAX_STAGES):
        _emit_entry(module, stage_symbol(number), "fft_stage", number)


def fold_symbol(name: str, packs: bool, number: int) -> str:
    """Return the driver of a fold that is phase `number`; `name` is the part's."""
    return f"{name}_{'pack' if packs else 'unpack'}_{number}"


def emit_folds(module: ModuleBuilder, name: str, type: Type, target: TargetSpec) -> None:
    """Emit the drivers of folds in vectors of `type`."""
    for packs in (False, True):
        driver = f"{name}_{'pack' if packs else 'unpack'}"
        f, env, chunk, numbers = _open(module, driver)
        given = _numbers(f, numbers, FOLD)
        areas = [_area(f, env, given, side) for side in ("source", "target")]
        emit_fold(ComplexMath(f, type, target.has_fma), packs, given, (areas[0], areas[1]), chunk)
        f.ret()
        for number in range(MAX_STAGES):
            _emit_entry(module, fold_symbol(name, packs, number), driver, number)


def _open(module: ModuleBuilder, symbol: str) -> tuple[FunctionBuilder, Value, Value, Value]:
    params = [("env", lt.PTR), ("chunk", lt.I64), ("numbers", lt.PTR)]
    f = module.function(symbol, lt.VOID, params, linkage="internal", attrs="nounwind")
    env, chunk, numbers = f.params
    return f, env, chunk, numbers


def _emit_entry(module: ModuleBuilder, symbol: str, driver: str, number: int) -> None:
    """Emit phase `number`: the driver on the numbers of that stage."""
    f = module.function(symbol, lt.VOID, [("env", lt.PTR), ("chunk", lt.I64)], attrs="nounwind")
    env, chunk = f.params
    offset = f.load(lt.I64, f.gep(env, (BUFFERS + 1 + number) * SLOT_BYTES), 8, invariant=True)
    f.call(module.defined(driver).reference, [env, chunk, f.gep(env, offset)])
    f.ret()


def _numbers(f: FunctionBuilder, at: Value, names: tuple[str, ...]) -> dict[str, Value]:
    return {
        name: f.load(
            lt.PTR if name in _POINTERS else lt.I64,
            f.gep(at, slot * SLOT_BYTES),
            8,
            invariant=True,
        )
        for slot, name in enumerate(names)
    }


def _area(f: FunctionBuilder, env: Value, given: dict[str, Value], side: str) -> Value:
    base = f.load(lt.PTR, f.gep(env, given[f"{side}_slot"], lt.I64), 8)
    return f.gep(base, given[f"{side}_offset"])


@record
class _Chunk:
    """What the stages of a chunk have in common."""

    f: FunctionBuilder
    env: Value
    number: Value
    tiles: Value

    def stage(self, at: Value, first: Value, last: Value) -> Value:
        """Emit a stage's work on the units [first, last); return where the next one's numbers lie.

        `at` is where its own lie.
        """
        f = self.f
        given = _numbers(f, at, STAGE)
        areas = {side: self._area(given, side) for side in ("source", "target")}
        first_step = f.gep(at, len(STAGE) * SLOT_BYTES)

        def block(number: Value) -> None:
            outer = f.as_value(f.idiv(number, given["blocks"]))
            lane = f.mul(f.as_value(f.irem(number, given["blocks"])), given["width"])
            addresses = [
                f.gep(
                    area,
                    f.add(f.mul(outer, given[f"{side}_outer"]), f.mul(lane, given[f"{side}_lane"])),
                )
                for side, area in areas.items()
            ]
            left = f.as_value(f.imin(f.isub(given["lanes"], lane), given["width"]))
            self._fetch(areas["source"], number, given)

            def step(_: Value, values: list[Value]) -> list[Value]:
                (at,) = values
                function = f.load(lt.PTR, at, 8)
                size = f.load(lt.I64, f.gep(at, SLOT_BYTES), 8)
                arguments = f.gep(at, 2 * SLOT_BYTES)
                types = [type for _, type in SIGNATURE]
                f.call_indirect(
                    function, lt.VOID, types, [self.tiles, *addresses, lane, left, arguments]
                )
                return [f.gep(at, size)]

            f.loop(0, given["steps"], 1, [first_step], step, at_least_once=True)

        units = given["unit_blocks"]
        start = f.mul(first, units)
        f.for_range(f.mul(last, units), block, start=start)
        return f.gep(at, given["bytes"])

    def _fetch(self, source: Value, number: Value, given: dict[str, Value]) -> None:
        """Emit the prefetch of a block's part of the unit behind its own."""
        f = self.f
        unit = f.iadd(f.idiv(number, given["blocks"]), 1)
        part = f.imul(f.irem(number, given["blocks"]), given["fetched"])
        start = f.gep(f.gep(source, f.imul(unit, given["source_outer"])), part)
        how = [f.const(lt.I32, item) for item in (0, TO_L2, DATA_CACHE)]

        def line(offset: Value) -> None:
            f.intrinsic("llvm.prefetch", lt.VOID, [f.gep(start, offset), *how])

        f.for_range(given["fetched"], line, step=LINE_BYTES)

    def _area(self, given: dict[str, Value], side: str) -> Value:
        own = self.f.mul(self.number, given[f"{side}_chunk"])
        return self.f.gep(_area(self.f, self.env, given, side), own)


def _emit_stage(module: ModuleBuilder) -> None:
    """Emit the loop over a chunk's units, and the stages of each round of them."""
    f, env, chunk, numbers = _open(module, "fft_stage")
    given = _numbers(f, numbers, PHASE)
    scratch = f.load(lt.PTR, f.gep(env, SCRATCH * SLOT_BYTES), 8)
    tiles = f.gep(scratch, f.add(given["tiles"], f.mul(chunk, given["tile_bytes"])))
    work = _Chunk(f, env, chunk, tiles)
    first_stage = f.gep(numbers, len(PHASE) * SLOT_BYTES)
    start, stop = units_of_chunk(f, chunk, given["grain"], given["total"])

    def units(first: Value) -> None:
        last = f.as_value(f.imin(f.iadd(first, given["round"]), stop))
        f.loop(
            0,
            given["stages"],
            1,
            [first_stage],
            lambda _, at: [work.stage(at[0], first, last)],
            at_least_once=True,
        )

    f.for_range(stop, units, start=start, step=given["round"])
    f.ret()
