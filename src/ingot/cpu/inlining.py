# SPDX-License-Identifier: Apache-2.0
"""Small kernels of loops, which become part of the code that runs the loop.

A call of a kernel costs a few nanoseconds, which matters for a loop of a hundred thousand steps on
scalars. There the kernels' code is emitted in place (`cpu.calls`). A loop of nothing but such
kernels keeps its small state on the stack, and a short list of LLVM's passes turns that into
registers (`cpu.register_loops`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.host.control import CONTROL, MAX_NEST, VIEWS
from ingot.kernel.expr import walk
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.kernel.schedule.tiles import SquareTiles
from ingot.passes.buffers.buffer_table import Constant, Slice
from ingot.support.graphs import reachable

MAX_POINTS = 64
"""Points of the grid at most: a few vectors."""

MAX_NODES = 200
"""Expression nodes at most."""

MAX_CALLS = 200
"""Kernels of a computation at most: LLVM's time for the host program grows faster than they do."""

MAX_HELD = 256
"""Bytes of a value at most that a loop keeps on the stack."""

TOO_HIGH = 1 << 30
"""The height of an instruction that is in no register loop."""


def loop_computations(module: Module) -> set[Computation]:
    """Return the computations that may run many times in one execution and have few kernels."""
    loops = [called for one in module.schedule for called in _called(one, {"while"})]
    repeated = reachable(loops, lambda one: _called(one, CONTROL))
    return {one for one in repeated if _kernel_count(one) <= MAX_CALLS}


def _called(computation: Computation, opcodes: Container[str]) -> Iterator[Computation]:
    """Yield what instructions of some opcodes call."""
    for instruction in computation.instructions:
        if instruction.opcode in opcodes:
            yield from instruction.called_computations


def _kernel_count(computation: Computation) -> int:
    return sum(1 for instruction in computation.instructions if instruction.opcode == "fusion")


def is_small(kernel: LoopKernel) -> bool:
    """Whether a kernel is worth emitting into the host program."""
    if kernel.local_buffers:
        return False
    points = 1
    for axes in (kernel.grid, *(item.axes for item in kernel.passes)):
        for axis in axes:
            if not isinstance(axis.extent, int):
                return False
            points *= max(1, axis.extent)
    return points <= MAX_POINTS and sum(1 for _ in walk(kernel.exprs)) <= MAX_NODES


def calls_library(schedule: LoopSchedule) -> bool:
    """Whether a kernel calls functions of the library, which a host program is not linked with."""
    return isinstance(schedule.strategy, SquareTiles)


def register_loops(
    module: Module, inlined: Container[Instruction], checked: Container[Computation]
) -> list[Instruction]:
    """Return the loops of inlined kernels, copies, and a few levels of such control flow.

    Sizes that are looked at when a computation runs (`checked`) are the host program's business.
    """
    heights: dict[Computation, int] = {}
    found: list[Instruction] = []
    for computation in module.post_order():
        order = module.schedule.get(computation, ())
        above = [_height(instruction, inlined, heights) for instruction in order]
        heights[computation] = TOO_HIGH if computation in checked else max(above, default=0)
        for instruction, height in zip(order, above, strict=True):
            if instruction.opcode == "while" and height <= MAX_NEST:
                found.append(instruction)
    return found


def _height(
    instruction: Instruction, inlined: Container[Instruction], heights: dict[Computation, int]
) -> int:
    """Return how many loops and branches of a register loop are inside of each other here."""
    if instruction.opcode in CONTROL:
        return 1 + max(heights[called] for called in instruction.called_computations)
    plain = instruction.opcode in VIEWS or instruction.opcode == "copy"
    return 0 if plain or instruction in inlined else TOO_HIGH


def nested(loop: Instruction, module: Module) -> Iterator[Instruction]:
    """Yield a loop or branch and everything scheduled in it."""
    pending = [loop]
    while pending:
        instruction = pending.pop()
        yield instruction
        if instruction.opcode in CONTROL:
            for called in instruction.called_computations:
                pending.extend(module.schedule[called])


def is_held(slice_: Slice) -> bool:
    """Whether a loop in registers keeps the value of that slice on the stack."""
    return (
        isinstance(slice_.size, int)
        and slice_.size <= MAX_HELD
        and not isinstance(slice_.allocation, Constant)
    )
