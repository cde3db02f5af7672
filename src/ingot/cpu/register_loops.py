# SPDX-License-Identifier: Apache-2.0
"""Loops whose small values live in registers: each is one function, called as a kernel is.

Stands between buffer assignment and the host program, which then may be steps (`cpu.steps`). The
small kernels of such a loop are emitted into its function. Their values are kept on the stack,
which LLVM's passes turn into registers; env holds the addresses of everything else.

Invariant: the function reads the loop's state from its buffers and leaves it there.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.calls import KernelCalls
from ingot.cpu.code import RegisterLoop
from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, RuntimeSlot, open_kernel
from ingot.cpu.emit.kernel_abi import Slot as KernelSlot
from ingot.cpu.inlining import is_held, nested, register_loops
from ingot.cpu.kernels import KernelSet
from ingot.emit.values.indices import IndexValue
from ingot.hlo.instruction import Instruction
from ingot.host.control import VIEWS, ControlFlow
from ingot.host.placed import PlacedModule
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.optimization import REGISTER_LOOPS
from ingot.llvm.values import Value
from ingot.passes.buffers.buffer_table import BufferAssignment, Parameter, Slice
from ingot.support.diagnostics import InternalError


def emit_register_loops(placed: PlacedModule, kernels: KernelSet) -> None:
    """Emit the outermost register loops of a module and begin to compile them."""
    module = placed.module
    small = {fusion for fusion, name in kernels.names.items() if name in kernels.inlined}
    if not small:
        return
    found = register_loops(module, small, placed.plan.regions)
    inner = {one for loop in found for one in nested(loop, module) if one is not loop}
    outermost = [loop for loop in found if loop not in inner]
    if not outermost:
        return
    target = kernels.target
    builder = ModuleBuilder.for_target("loops", target, imports=True)
    loops = {
        loop: _LoopFunction((builder, f"loop_{number}"), loop, placed, kernels)
        for number, loop in enumerate(outermost)
    }
    emitted = {loop: function.emit() for loop, function in loops.items()}
    kernels.add_loops(emitted, builder, REGISTER_LOOPS)


class _LoopFunction(ControlFlow):
    """Emits one loop."""

    def __init__(
        self,
        where: tuple[ModuleBuilder, str],
        loop: Instruction,
        placed: PlacedModule,
        kernels: KernelSet,
    ) -> None:
        """Emit `loop` into a module, under a symbol: the two of `where`."""
        builder, symbol = where
        assignment, symbols = placed.assignment, placed.plan.symbols
        state = dict.fromkeys(_leaves(loop, assignment))
        used = state | _slices(nested(loop, placed.module), assignment)
        held = [slice_ for slice_ in used if is_held(slice_)]
        self._loop = loop
        self._state = [slice_ for slice_ in state if is_held(slice_)]
        self._slices = (*self._state, *(slice_ for slice_ in used if not is_held(slice_)))
        self._numbers = {slice_: number for number, slice_ in enumerate(self._slices)}
        f, emitter, _ = open_kernel(builder, symbol, len(self._slices), symbols, fma=True)
        slots: tuple[KernelSlot, ...] = (*symbols, RuntimeSlot())
        self._emitted = EmittedKernel((Phase(symbol, 1),), len(self._slices), slots)
        last = (self._emitted.slots - 1) * SLOT_BYTES
        runtime = f.load(lt.PTR, f.gep(f.params[0], last), 8)
        self._buffers = emitter.buffers
        super().__init__(emitter, runtime, placed)
        self._calls = KernelCalls(emitter, runtime, kernels)
        self._held = {slice_: self._room_for(slice_) for slice_ in held}

    def emit(self) -> RegisterLoop:
        """Emit the function; return how to call it."""
        f = self.f
        for slice_ in self._state:
            f.memcpy(self._held[slice_], self._outside(slice_), self.emitter.index(slice_.size))
        self.loop(self._loop)
        for slice_ in self._state:
            if not isinstance(slice_.allocation, Parameter):
                f.memcpy(self._outside(slice_), self._held[slice_], self.emitter.index(slice_.size))
        f.ret()
        return RegisterLoop(self._emitted, self._slices)

    def leave(self) -> None:
        """Emit the end of the loop; who called it polls too."""
        self.f.ret()

    def slice_address(self, found: Slice) -> Value:
        """Return the address of a slice: on the stack if it is held there."""
        return self._held.get(found) or self._outside(found)

    def _outside(self, found: Slice) -> Value:
        return self._buffers[self._numbers[found]]

    def kernel_call(self, instruction: Instruction, addresses: list[Value]) -> None:
        """Emit a kernel in place, as all of such a loop are."""
        if self._calls.emitted_in_place(instruction, addresses):
            return
        raise InternalError("a register loop calls a kernel", instruction=repr(instruction))

    def outline(self, instruction: Instruction) -> None:
        """Refuse: a register loop is not as high."""
        raise InternalError("a register loop is too high", instruction=repr(instruction))

    def copy(self, target: Value, source: Value, size: IndexValue) -> None:
        """Emit the copy of `size` bytes, of values that are held with the zeros behind them."""
        rooms = self._calls.rooms
        room = rooms.get(source)
        is_whole = room is not None and room == rooms.get(target) and room[0] == size
        super().copy(target, source, room[1] if room is not None and is_whole else size)

    def _room_for(self, slice_: Slice) -> Value:
        """Return the address of stack memory for a value, with room for its last vector.

        It is zero behind the value, where lanes that do not count then compute with zeros.
        """
        size = slice_.size
        assert isinstance(size, int), "what a loop holds is of known size"
        room = 1 << max(0, size - 1).bit_length()
        address = self.f.alloca(lt.I8, max(64, room), 64)
        if size < room:
            self.f.memset(address, 0, room)
        self._calls.rooms[address] = (size, room)
        return address


def _slices(instructions: Iterable[Instruction], assignment: BufferAssignment) -> dict[Slice, None]:
    """Return the slices of buffers that instructions read or write, constants too."""
    found: dict[Slice, None] = {}
    for instruction in instructions:
        if instruction.opcode in VIEWS:
            continue
        touched = [*instruction.operands, instruction]
        if instruction.opcode == "while":
            touched.append(instruction.attributes.condition.root)
        for one in touched:
            found |= dict.fromkeys(_leaves(one, assignment))
    return found


def _leaves(instruction: Instruction, assignment: BufferAssignment) -> list[Slice]:
    return [
        assignment.slice_of(instruction, path)
        for path, shape in instruction.shape.leaves()
        if shape.is_array
    ]
