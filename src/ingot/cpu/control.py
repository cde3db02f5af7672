# SPDX-License-Identifier: Apache-2.0
"""Control flow in machine code: scheduled computations as calls, copies, loops and branches.

What the host program (`cpu.host`) and a loop that is one function (`cpu.register_loops`) share.
They differ in where values live and in what may stand in them.

Invariant: every address comes from the buffer assignment; nothing here allocates but stack slots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ingot.cpu.emit.kernel_abi import SLOT_BYTES, CodeSlot, EmittedKernel, RuntimeSlot, Slot
from ingot.cpu.emit.loop.kernel import emit_in_place
from ingot.cpu.inlining import CONTROL, MAX_NEST, VIEWS
from ingot.cpu.placed import PlacedModule
from ingot.cpu.polling import Poller
from ingot.cpu.sizes import require_bound
from ingot.cpu.vectors import vectors_of
from ingot.emit.values.indices import IndexEmitter
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.decide import schedule_loops
from ingot.llvm import types as lt
from ingot.llvm.values import Value
from ingot.passes.buffers.buffer_table import Slice
from ingot.support.diagnostics import UnsupportedError


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
        self.kernels = placed.kernels
        self._nest = 0

    # ---- addresses

    def address(self, instruction: Instruction, path: tuple[int, ...] = ()) -> Value:
        """Return the address of a value's buffer."""
        return self.place(self.assignment.slice_of(instruction, path))

    @abstractmethod
    def place(self, found: Slice) -> Value:
        """Return the address of a slice."""

    # ---- instructions

    def computation(self, computation: Computation) -> None:
        """Emit the instructions of a computation in schedule order."""
        for instruction in self.module.schedule[computation]:
            self.instruction(instruction)

    def instruction(self, instruction: Instruction) -> None:
        """Emit one instruction.

        Raises:
            UnsupportedError: the CPU backend cannot run the opcode.
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
        """Emit a `while` or `conditional`, here or, deep inside of others, elsewhere."""
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
        """Emit the call of a kernel that is not emitted in place."""

    def call(self, instruction: Instruction) -> None:
        """Emit an instruction that is neither kernel, copy nor control flow.

        Raises:
            UnsupportedError: the CPU backend cannot run the opcode.
        """
        metadata = instruction.metadata
        raise UnsupportedError(
            f"the CPU backend cannot run {instruction.opcode}",
            code="INGOT0330",
            instruction=repr(instruction),
            op_type=metadata.op_type,
            op_name=metadata.op_name,
            location=metadata.location,
            hint="see the op coverage table in docs/ops.md",
        )

    def _copy(self, instruction: Instruction) -> None:
        f = self.f
        for path, shape in instruction.shape.leaves():
            if not shape.is_array:
                continue
            target = self.address(instruction, path)
            source = self.address(instruction.operands[0], path)
            if target.text != source.text:
                f.memcpy(target, source, self.emitter.index(shape.bytes))

    def _fusion(self, instruction: Instruction) -> None:
        addresses = [self.address(operand) for operand in instruction.operands]
        addresses.extend(self.address(instruction, path) for path, _ in instruction.shape.leaves())
        name = self.kernels.names[instruction]
        inlined = self.kernels.inlined.get(name)
        if inlined is None:
            self.kernel_call(instruction, addresses)
        else:
            self._emit_inlined(inlined, addresses)

    def fill(
        self, env: Value, kernel: EmittedKernel, addresses: list[Value], scratch: Value
    ) -> None:
        """Fill the slots of a kernel's env."""
        f = self.f
        symbols = map(self._slot, kernel.symbols)
        first, last = kernel.ordered(addresses), kernel.last(addresses)
        for number, value in enumerate([*first, scratch, *symbols, *last]):
            f.store(value, f.gep(env, number * SLOT_BYTES), 8)

    def _slot(self, held: Slot) -> Value:
        """Return what a slot of env holds: a number, a function's address or a symbolic size."""
        if isinstance(held, RuntimeSlot):
            return self.runtime
        if isinstance(held, CodeSlot):
            return self._address_of(held.symbol)
        size = Dim.symbol(held) if isinstance(held, str) else held
        require_bound(size, self.emitter.names, f"an op reads or writes at {size}")
        return self.f.as_value(self.emitter.index(size))

    def _address_of(self, symbol: str) -> Value:
        """Return the address of a function or of a kernel's table."""
        compiled = self.kernels.compiled.values()
        # WebAssembly has functions and data in address spaces of their own.
        if self.builder.architecture == "wasm" and any(
            symbol in kernel.emitted.tables for kernel in compiled
        ):
            return self.builder.global_text(symbol, "external constant i8")
        return Value(lt.PTR, self.builder.declare(symbol, lt.VOID, []).text)

    def _emit_inlined(self, kernel: LoopKernel, addresses: list[Value]) -> None:
        """Emit a kernel's code here."""
        target = self.kernels.target
        sizes = {name: self.emitter.names[name] for name in kernel.symbols}
        emitter = ValueEmitter(self.f, dict(enumerate(addresses)), sizes, target.has_fma)
        emit_in_place(emitter, kernel, schedule_loops(kernel, vectors_of(target)))

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
        """Emit the end of the function for an execution that is to end."""

    def predicate(self, instruction: Instruction) -> Value:
        """Return whether a pred[] holds."""
        f = self.f
        byte = f.load(lt.I8, self.address(instruction))
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
        self._branch(f.load(lt.I32, self.address(index)), branches)

    def _branch(self, number: Value, branches: Sequence[Computation], first: int = 0) -> None:
        """Emit one of `branches`, numbered from `first`; an index out of range takes the last.

        Halves are told apart until one branch is left. As an unsigned number, a negative index is
        beyond the last.
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
