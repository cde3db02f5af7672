# SPDX-License-Identifier: Apache-2.0
"""The host program as steps, for a module that is a straight line of kernel and loop calls.

Stands between buffer assignment and the artifact, in place of `host.CpuHostProgram`, which other
modules need: those with loops, branches, foreign calls, assertions or symbolic sizes.

Invariant: like `CpuHostProgram`'s, every address comes from the buffer assignment.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.artifact.steps import (
    CONSTANTS,
    COPIED_BYTES,
    COPY,
    FIRST_INPUT,
    NUMBER,
    RUNTIME,
    TEMP,
    Slot,
    Step,
    Steps,
)  # fmt: skip
from ingot.cpu.code import RegisterLoop
from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel, RuntimeSlot
from ingot.cpu.emit.kernel_abi import Slot as KernelSlot
from ingot.cpu.kernels import KernelSet
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, Trait, ops_with
from ingot.host.placed import PlacedModule
from ingot.host.sites import sites
from ingot.host.sizes import computed_sizes, require_bound
from ingot.passes.buffers.buffer_table import BufferAssignment, Constant, Output, Parameter, Slice

_STRAIGHT = ops_with(
    Trait.LEAF, Trait.TUPLE, Trait.VIEW, Trait.BARRIER, RegionKind.FUSION, also=("copy",)
)


def host_steps(placed: PlacedModule, kernels: KernelSet) -> Steps | None:
    """Return the module's steps; None if it needs a host program of machine code.

    Args:
        placed: the module, with where its values live.
        kernels: its kernels.
    """
    info = placed.info
    if info.num_symbols or info.constraints or info.run_errors:
        return None
    module, assignment = placed.module, placed.assignment
    schedule = module.schedule[module.entry]
    loops = kernels.loops.loops
    if any(one.opcode not in _STRAIGHT and one not in loops for one in schedule):
        return None
    maker = _Maker(assignment, kernels, len(info.params))
    steps = [*maker.donations()]
    numbers = {instruction: site for site, instruction in enumerate(sites(module))}
    for instruction in schedule:
        if instruction.opcode == "fusion":
            steps.append(maker.kernel(instruction, numbers[instruction]))
        elif instruction.opcode == "copy":
            steps.extend(maker.copies(instruction))
        elif instruction in loops:
            steps.append(maker.loop(loops[instruction], numbers[instruction]))
    sizes = [_known(size) for size in computed_sizes(module, assignment)]
    return Steps.of(len(info.params), len(info.outputs), sizes, steps)


def _known(size: int | Dim) -> int:
    assert isinstance(size, int), "no size is symbolic"
    return size


class _Maker:
    """Makes the steps of one module."""

    def __init__(self, assignment: BufferAssignment, kernels: KernelSet, inputs: int) -> None:
        self._assignment = assignment
        self._kernels = kernels
        self._first_output = FIRST_INPUT + inputs

    def donations(self) -> Iterator[Step]:
        """Fill outputs that start as a parameter's value when the caller gave another buffer."""
        for output, parameter, size in self._assignment.donations:
            source = Slot(FIRST_INPUT + parameter, 0)
            yield _copy(Slot(self._first_output + output, 0), source, _known(size))

    def kernel(self, instruction: Instruction, site: int) -> Step:
        """Return the call of a fusion's kernel."""
        operands = [self._slot(operand) for operand in instruction.operands]
        results = [self._slot(instruction, path) for path, _ in instruction.shape.leaves()]
        return self._call(self._kernels.of(instruction).emitted, [*operands, *results], site)

    def loop(self, loop: RegisterLoop, site: int) -> Step:
        """Return the call of a loop that is one function."""
        return self._call(loop.emitted, [self._slot_of(one) for one in loop.slices], site)

    def _call(self, kernel: EmittedKernel, buffers: list[Slot], site: int) -> Step:
        scratch = Slot(TEMP, _known(self._assignment.scratch_offset))
        slots = kernel.env(buffers, scratch, _kernel_slot)
        phases = [(phase.symbol, _known(phase.chunks)) for phase in kernel.phases]
        return Step(tuple(slots), tuple(phase for phase in phases if phase[1]), site)

    def copies(self, instruction: Instruction) -> Iterator[Step]:
        """Return what a copy does for each leaf."""
        for path, shape in instruction.shape.leaves():
            target = self._slot(instruction, path)
            source = self._slot(instruction.operands[0], path)
            if target != source and shape.is_array:
                yield _copy(target, source, _known(shape.bytes))

    def _slot(self, instruction: Instruction, path: tuple[int, ...] = ()) -> Slot:
        return self._slot_of(self._assignment.slice_of(instruction, path))

    def _slot_of(self, slice_: Slice) -> Slot:
        return Slot(self._base(slice_), _known(slice_.offset))

    def _base(self, slice_: Slice) -> int:
        allocation = slice_.allocation
        if isinstance(allocation, Parameter):
            return FIRST_INPUT + allocation.index
        if isinstance(allocation, Output):
            return self._first_output + allocation.index
        return CONSTANTS if isinstance(allocation, Constant) else TEMP


def _copy(target: Slot, source: Slot, size: int) -> Step:
    chunks = ceil_div(size, COPIED_BYTES)
    return Step((target, source, Slot(NUMBER, size)), ((COPY, chunks),) if chunks else ())


def _kernel_slot(held: KernelSlot) -> Slot:
    if isinstance(held, int):
        return Slot(NUMBER, held)
    if isinstance(held, RuntimeSlot):
        return Slot(RUNTIME, 0)
    if isinstance(held, CodeSlot):
        return Slot(NUMBER, held.symbol)
    size = held if isinstance(held, Dim) else Dim.symbol(held)
    require_bound(size, (), f"an op reads or writes at {size}")
    raise AssertionError("no size is symbolic")
