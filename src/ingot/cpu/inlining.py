"""Small kernels of loops, which become part of the host program.

A call of a kernel costs a few nanoseconds: nothing, but for a loop of a hundred thousand steps on
scalars. There the kernels' functions are emitted into the host program's own module and inlined,
and the host program goes through LLVM's short list of passes. A loop of nothing but such kernels
keeps its small state on the stack, which these passes turn into registers.
"""

from __future__ import annotations

from collections.abc import Container

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.kernel.expr import walk
from ingot.kernel.ir import Kernel, LoopKernel
from ingot.passes.buffers.buffer_table import BufferAssignment, Constant, Slice

MAX_POINTS = 64
"""Points of the grid at most: a few vectors."""

MAX_NODES = 200
"""Expression nodes at most."""

MAX_CALLS = 200
"""Kernels of a computation at most: LLVM's time for the host program grows faster than they do."""

MAX_HELD = 256
"""Bytes of a value at most that a loop keeps on the stack."""

VIEWS = frozenset(
    {
        "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape",
        "opt-barrier", "add-dependency", "after-all",
    }
)  # fmt: skip
"""Ops that do nothing at run time."""

HOST_PASSES = ("inline", "sroa", "instcombine", "simplifycfg", "gvn")
"""Passes of a host program with inlined kernels."""


def loop_computations(module: Module) -> set[Computation]:
    """Return the computations that may run many times in one execution and have few kernels."""
    found: set[Computation] = set()
    pending = [
        called
        for computation in module.schedule
        for instruction in computation.instructions
        if instruction.opcode == "while"
        for called in instruction.called_computations
    ]
    while pending:
        computation = pending.pop()
        if computation in found:
            continue
        found.add(computation)
        for instruction in computation.instructions:
            if instruction.opcode in ("while", "conditional"):
                pending.extend(instruction.called_computations)
    return {one for one in found if _kernel_count(one) <= MAX_CALLS}


def _kernel_count(computation: Computation) -> int:
    return sum(1 for instruction in computation.instructions if instruction.opcode == "fusion")


def is_small(kernel: Kernel) -> bool:
    """Whether a kernel is worth a place in the host program."""
    if not isinstance(kernel, LoopKernel) or kernel.kept:
        return False
    points = 1
    for axes in (kernel.grid, *(item.axes for item in kernel.passes)):
        for axis in axes:
            if not isinstance(axis.extent, int):
                return False
            points *= max(1, axis.extent)
    return points <= MAX_POINTS and sum(1 for _ in walk(kernel.exprs)) <= MAX_NODES


def is_register_loop(loop: Instruction, module: Module, inlined: Container[Instruction]) -> bool:
    """Whether a loop consists of inlined kernels, copies, and control flow of the same kind."""
    return all(
        instruction.opcode in VIEWS
        or instruction.opcode == "copy"
        or (instruction.opcode == "fusion" and instruction in inlined)
        or (
            instruction.opcode in ("while", "conditional")
            and is_register_loop(instruction, module, inlined)
        )
        for called in loop.called_computations
        for instruction in module.schedule[called]
    )


def held_slices(loop: Instruction, module: Module, assignment: BufferAssignment) -> list[Slice]:
    """Return where the small values of a loop live that are no constants."""
    found = dict.fromkeys(_slices(loop, assignment))
    pending = list(loop.called_computations)
    while pending:
        for instruction in module.schedule[pending.pop()]:
            found |= dict.fromkeys(_slices(instruction, assignment))
            if instruction.opcode in ("while", "conditional"):
                pending.extend(instruction.called_computations)
    return list(found)


def _slices(instruction: Instruction, assignment: BufferAssignment) -> list[Slice]:
    places = [
        assignment.slice_of(instruction, path)
        for path, shape in instruction.shape.leaves()
        if shape.is_array
    ]
    return [
        place
        for place in places
        if isinstance(place.size, int)
        and place.size <= MAX_HELD
        and not isinstance(place.allocation, Constant)
    ]
