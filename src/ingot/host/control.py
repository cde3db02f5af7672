# SPDX-License-Identifier: Apache-2.0
"""Control flow in machine code: scheduled computations as calls, copies, loops and branches.

Host programs (`host.program`) and, on the CPU, loops that are one function (`cpu.register_loops`)
share this. They differ in where values live, and in how they are read, copied and computed.

Invariant: every address comes from the buffer assignment; nothing here allocates but stack slots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ingot.emit.values.indices import IndexEmitter, IndexValue
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, Trait, ops_with
from ingot.host.placed import PlacedModule
from ingot.host.polling import Poller
from ingot.llvm import types as lt
from ingot.llvm.values import Value
from ingot.passes.buffers.buffer_table import Slice
from ingot.support.diagnostics import UnsupportedError

MAX_NEST = 24
"""Nested loops and branches in one function, at most: LLVM recurses over loops."""

VIEWS = ops_with(Trait.LEAF, Trait.TUPLE, Trait.VIEW, Trait.BARRIER)
"""Ops that do nothing at run time."""

CONTROL = ops_with(RegionKind.BRANCH)
"""Ops whose computations are scheduled."""


class ControlFlow(ABC):
    """Emits the instructions of computations into one function."""

    def __init__(self, emitter: IndexEmitter, runtime: Value, placed: PlacedModule) -> None:
        """Emit into the emitter's function.

        Args:
            emitter: emitter of sizes.
            runtime: address of the runtime record.
            placed: the module, with where its values live.
        """
        self.f = emitter.f
        self.builder = self.f.owner
        self.emitter = emitter
        self.runtime = runtime
        self.poller = Poller(self.f, runtime)
        self.placed = placed
        self.module = placed.module
        self.assignment = placed.assignment
        self._nest = 0

    # ---- addresses

    def address(self, instruction: Instruction, path: tuple[int, ...] = ()) -> Value:
        """Return the address of a value's buffer."""
        return self.slice_address(self.assignment.slice_of(instruction, path))

    @abstractmethod
    def slice_address(self, found: Slice) -> Value:
        """Return the address of a slice."""

    # ---- instructions

    def computation(self, computation: Computation) -> None:
        """Emit the instructions of a computation in schedule order."""
        self.instructions(self.module.schedule[computation])

    def instructions(self, instructions: Sequence[Instruction]) -> None:
        """Emit instructions in their order."""
        for instruction in instructions:
            self.instruction(instruction)

    def instruction(self, instruction: Instruction) -> None:
        """Emit one instruction.

        Raises:
            UnsupportedError: no backend can run the opcode.
        """
        opcode = instruction.opcode
        if opcode in VIEWS:
            return
        if opcode == "fusion":
            self._fusion(instruction)
        elif opcode in CONTROL:
            self._control(instruction)
        elif opcode == "copy":
            self._copy(instruction)
        else:
            self.call(instruction)

    def _control(self, instruction: Instruction) -> None:
        """Emit a `while` or `conditional`; deeply nested ones become functions of their own."""
        if self._nest >= MAX_NEST:
            self.outline(instruction)
            return
        self._nest += 1
        if instruction.opcode == "while":
            self.loop(instruction)
        else:
            self._conditional(instruction)
        self._nest -= 1

    @abstractmethod
    def outline(self, instruction: Instruction) -> None:
        """Emit the call of a function that runs a `while` or `conditional`."""

    @abstractmethod
    def kernel_call(self, instruction: Instruction, addresses: list[Value]) -> None:
        """Emit what runs the kernel of a fusion, with the addresses of its buffers."""

    def call(self, instruction: Instruction) -> None:
        """Emit an instruction that is neither kernel, copy nor control flow.

        Raises:
            UnsupportedError: no backend can run the opcode.
        """
        metadata = instruction.metadata
        raise UnsupportedError(
            f"no backend can run {instruction.opcode}",
            code="INGOT0330",
            instruction=repr(instruction),
            op_type=metadata.op_type,
            op_name=metadata.op_name,
            location=metadata.location,
            hint="see the op coverage table in docs/ops.md",
        )

    def _copy(self, instruction: Instruction) -> None:
        for path, shape in instruction.shape.leaves():
            if not shape.is_array:
                continue
            target = self.address(instruction, path)
            source = self.address(instruction.operands[0], path)
            if target.text != source.text:
                self.copy(target, source, self.emitter.index(shape.bytes))

    def _fusion(self, instruction: Instruction) -> None:
        addresses = [self.address(operand) for operand in instruction.operands]
        addresses.extend(self.address(instruction, path) for path, _ in instruction.shape.leaves())
        self.kernel_call(instruction, addresses)

    # ---- memory

    def copy(self, target: Value, source: Value, size: IndexValue) -> None:
        """Emit the copy of `size` bytes."""
        self.f.memcpy(target, source, size)

    def read(self, type: lt.Type, address: Value) -> Value:
        """Return the number of type `type` at `address`."""
        return self.f.load(type, address)

    # ---- loops and branches

    def loop(self, instruction: Instruction) -> None:
        """Emit a `while`."""
        condition = instruction.attributes.condition
        body = instruction.attributes.body

        def test(_: list[Value]) -> Value:
            self.computation(condition)
            return self.predicate(condition.root)

        def step(_: list[Value]) -> list[Value]:
            self.poller.check(self.leave)
            self.computation(body)
            return []

        self.f.while_([], test, step)

    @abstractmethod
    def leave(self) -> None:
        """Emit the return from the function when the execution is cancelled."""

    def predicate(self, instruction: Instruction) -> Value:
        """Return whether a pred[] holds."""
        f = self.f
        byte = self.read(lt.I8, self.address(instruction))
        return f.icmp("ne", byte, f.zero(lt.I8))

    def _conditional(self, instruction: Instruction) -> None:
        index = instruction.operands[0]
        branches = instruction.attributes.branch_computations
        f = self.f
        if index.shape.dtype is PRED:
            f.if_(
                self.predicate(index),
                lambda: self.computation(branches[0]),
                lambda: self.computation(branches[1]),
            )
            return
        self._branch(self.read(lt.I32, self.address(index)), branches)

    def _branch(self, number: Value, branches: Sequence[Computation], first: int = 0) -> None:
        """Emit one of `branches`, numbered from `first`; an index out of range takes the last.

        This is a binary search. Compared as unsigned, a negative index is beyond the last.
        """
        f = self.f
        if len(branches) == 1:
            self.computation(branches[0])
            return
        half = len(branches) // 2
        f.if_(
            f.icmp("ult", number, f.const(lt.I32, first + half)),
            lambda: self._branch(number, branches[:half], first),
            lambda: self._branch(number, branches[half:], first + half),
        )
