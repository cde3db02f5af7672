# SPDX-License-Identifier: Apache-2.0
"""Host programs of a GPU: the runtime launches kernels, copies and reads values for them.

All addresses are of device memory, except those of tables on the stack. Values that the host needs
(a predicate, a branch's number, the operands of a foreign call) are read when the stream has
computed them; everything else is enqueued and not waited for. Loops of a known trip count, in which
the host has no part, are launched as graphs of many iterations.

Invariant: nothing is launched for a grid of no blocks; the first call that the device refuses ends
the execution.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.artifact.abi import SLOT_BYTES
from ingot.artifact.device_code import (
    CALL,
    COPY,
    GRAPH_BEGIN,
    GRAPH_COPY,
    GRAPH_END,
    GRAPH_KERNEL,
    GRAPH_LAUNCH,
    GRAPH_MAKE,
    GRAPH_WORDS,
    KERNEL_TABLE,
    LAUNCH,
    READ,
    transfers_symbol,
)
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.sizes import SizeEmitter
from ingot.gpu.compiler import Launch
from ingot.gpu.kernels import GpuKernelSet, scratch_layout
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.host.control import VIEWS
from ingot.host.placed import PlacedModule
from ingot.host.program import HostProgram
from ingot.host.sizes import parameter_leaves, require_bound
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import Value
from ingot.semantics.custom_calls import CallSite
from ingot.semantics.trip_counts import known_trip_count

GRAPH_NODES = 64
"""Launches and copies of a graph, about. By NVIDIA's numbers (none were measured here) launching a
graph takes the host as long as launching a few kernels, and each further node a fraction of
that."""

LEAST_LAUNCHES = 128
"""A loop of fewer launches is enqueued before a graph of it is made and instantiated."""


class GpuHostProgram(HostProgram):
    """Emits `S_run` of one module for a GPU."""

    def __init__(
        self,
        builder: ModuleBuilder,
        placed: PlacedModule,
        kernels: GpuKernelSet,
        outer: HostProgram | None = None,
        function: Computation | None = None,
    ) -> None:
        """Emit into `builder`, as `HostProgram`; `kernels` are the emitted ones of the module."""
        super().__init__(builder, placed, outer, function)
        f = self.f
        self.kernels = kernels
        self._most = max(map(_parameters, kernels.names), default=0) + max(
            (len(kernel.scratch) + len(kernel.sizes) for kernel in kernels.kernels.values()),
            default=0,
        )
        self._values = f.alloca(lt.I64, self._most + 1, 8)
        self._pointers = f.alloca(lt.PTR, self._most + 1, 8)
        for number in range(self._most + 1):
            at = number * SLOT_BYTES
            f.store(f.gep(self._values, at), f.gep(self._pointers, at), 8)
        self._table = builder.global_text(KERNEL_TABLE, "external global i8")
        self._word = f.alloca(lt.I64)
        # The record of the graph that is filled, while one is.
        self._graph: Value | None = None

    def part(self, function: Computation) -> GpuHostProgram:
        """Return the emitter of a new function, with the inputs and outputs of `function`."""
        return GpuHostProgram(self.builder, self.placed, self.kernels, self.outer, function)

    @property
    def slots(self) -> int:
        """Slots of the parameters of a launch, and of their addresses."""
        return 2 * (self._most + 1)

    def kernel_call(self, instruction: Instruction, addresses: list[Value]) -> None:
        """Emit the launches of a kernel."""
        f, kernel = self.f, self.kernels.of(instruction)
        scratch, (offsets, _) = self.assignment.scratch_offset, scratch_layout(kernel.scratch)
        values = [
            *addresses,
            *(f.gep(self.temp, self.emitter.index(scratch + offset)) for offset in offsets),
            *(self._size(name) for name in kernel.sizes),
        ]
        if self._graph is not None:
            self._kernel(instruction, values)
            return
        with self.timed(instruction):
            self._kernel(instruction, values)
        self.poller.check(self.leave)

    def _kernel(self, instruction: Instruction, values: Sequence[Value]) -> None:
        """Emit the launches of a kernel that gets `values`."""
        for number, value in enumerate(values):
            self.f.store(value, self.f.gep(self._values, number * SLOT_BYTES), 8)
        for launch in self.kernels.of(instruction).launches:
            self._launches(instruction, launch, len(values))

    def _size(self, name: str) -> Value:
        size = Dim.symbol(name)
        require_bound(size, self.emitter.names, f"an op reads or writes at {size}")
        return self.f.as_value(self.emitter.index(size))

    def _launches(self, instruction: Instruction, launch: Launch, count: int) -> None:
        """Emit a launch, or one for each of its widths, which comes after `count` parameters."""
        if launch.widths is None:
            self._launch(instruction, launch)
            return
        f = self.f
        end = f.as_value(self.emitter.index(launch.widths.end))

        def test(values: list[Value]) -> Value:
            return f.icmp("slt", values[0], end)

        def step(values: list[Value]) -> list[Value]:
            f.store(values[0], f.gep(self._values, count * SLOT_BYTES), 8)
            self._launch(instruction, launch)
            return [f.shl(values[0], f.const(lt.I64, 1))]

        f.while_([f.const(lt.I64, launch.widths.first)], test, step)

    def _launch(self, instruction: Instruction, launch: Launch) -> None:
        f = self.f
        blocks = f.as_value(self.emitter.index(launch.blocks))
        handle = f.load(
            lt.PTR, f.gep(self._table, self.kernels.handles[launch.symbol] * SLOT_BYTES), 8
        )
        grid = (blocks, f.const(lt.I64, launch.threads))
        site = f.const(lt.I64, self.site(instruction))

        def enqueue() -> None:
            self._enqueue(LAUNCH, GRAPH_KERNEL, [handle, *grid, self._pointers, site])

        if isinstance(launch.blocks, int):
            if launch.blocks:
                enqueue()
            return
        f.if_(f.icmp("ne", blocks, f.zero(lt.I64)), enqueue, likely=True)

    def _ask(self, symbol: str, arguments: Sequence[Value]) -> None:
        """Call a function of the runtime; end the execution if it fails."""
        f = self.f
        given = [self.runtime, *arguments]
        function = self.builder.declare(symbol, lt.I32, [value.type for value in given])
        status = f.call(function, given)
        f.if_(f.icmp("ne", status, f.const(lt.I32, 0)), lambda: f.ret(status), likely=False)

    def _enqueue(self, now: str, later: str, arguments: Sequence[Value]) -> None:
        """Enqueue something now, or add it to the graph that is filled."""
        if self._graph is None:
            self._ask(now, arguments)
        else:
            self._ask(later, [self._graph, *arguments])

    # ---- loops

    def rounds(self, instruction: Instruction) -> None:
        """Emit the iterations of a `while`; a known number of them needs no condition."""
        count, body = known_trip_count(instruction), instruction.attributes.body
        if count is None:
            super().rounds(instruction)
            return
        nodes = self._graph_nodes(body)
        together = max(1, GRAPH_NODES // nodes) if nodes else 0
        if not together or nodes * count < LEAST_LAUNCHES:
            self._some_rounds(body, count)
            return
        f = self.f
        graph = f.alloca(lt.I64, GRAPH_WORDS, 8)
        self._ask(GRAPH_BEGIN, [graph])
        f.if_(
            f.icmp("ne", f.load(lt.I64, graph), f.zero(lt.I64)),
            lambda: self._rounds_of_graph(body, graph, count, together),
            lambda: self._some_rounds(body, count),
        )

    def _some_rounds(self, body: Computation, count: int) -> None:
        """Emit `count` iterations, whose kernels are launched one by one."""

        def step(_: Value) -> None:
            self.poller.check(self.leave)
            self.computation(body)

        self.f.for_range(count, step)

    def _rounds_of_graph(self, body: Computation, graph: Value, count: int, together: int) -> None:
        """Emit `count` iterations: a graph of `together` of them is launched repeatedly."""
        together = min(together, count)

        def fill(_: Value) -> None:
            self.computation(body)

        def leave() -> None:
            self._ask(GRAPH_END, [graph])
            self.leave()

        def launch(_: Value) -> None:
            self.poller.check(leave)
            self._ask(GRAPH_LAUNCH, [graph])

        self._graph = graph
        self.f.for_range(together, fill)
        self._graph = None
        self._ask(GRAPH_MAKE, [graph])
        self.f.for_range(count // together, launch)
        self._ask(GRAPH_END, [graph])
        if count % together:
            self._some_rounds(body, count % together)

    def _graph_nodes(self, body: Computation) -> int:
        """Return the launches and copies of an iteration; 0 if the host takes part in it."""
        if self.placed.plan.regions.get(body):
            return 0
        nodes = 0
        for instruction in self.module.schedule[body]:
            if instruction.opcode == "fusion":
                nodes += len(self.kernels.of(instruction).launches)
            elif instruction.opcode == "copy":
                nodes += len(instruction.shape.leaves())
            elif instruction.opcode not in VIEWS:
                return 0
        return nodes

    # ---- memory

    def copy(self, target: Value, source: Value, size: IndexValue) -> None:
        """Emit the copy of some bytes of values, on the device."""
        self._enqueue(COPY, GRAPH_COPY, [target, source, self.f.as_value(size)])

    def read(self, type: lt.Type, address: Value) -> Value:
        """Return the number of type `type` at `address`, once the stream has computed it."""
        f = self.f
        self._ask(READ, [self._word, address, f.const(lt.I64, type.bytes)])
        return f.load(type, self._word)

    def foreign(self, function: Value, frame: Value, call: CallSite) -> Value:
        """Return the status of a foreign call, which runs on the host on copies of its operands.

        A result that shares memory with an operand holds that operand's value before the call.
        """
        f = self.f
        sizes = [shape.bytes if shape.is_array else 0 for shape in call.operands]
        sizes += [shape.bytes if shape.is_array else 0 for shape in call.results]
        held = {result for result, _ in call.aliases}
        is_copied_in = [int(number in held) for number in range(len(call.results))]
        table = self.table(
            [
                f.const(lt.I64, len(call.operands)),
                f.const(lt.I64, len(call.results)),
                *(f.as_value(self.emitter.index(size)) for size in sizes),
                *(f.const(lt.I64, flag) for flag in is_copied_in),
            ]
        )
        # If the device refuses, `_ask` ends the execution; the word is what the call itself
        # returns.
        self._ask(CALL, [function, frame, table, self._word])
        return f.load(lt.I32, self._word)


def _parameters(fusion: Instruction) -> int:
    """Return how many buffers a fusion reads and writes."""
    return len(fusion.operands) + len(fusion.shape.leaves())


def emit_transfers(builder: ModuleBuilder, placed: PlacedModule) -> None:
    """Emit `S_transfers`: given `sizes`, the bytes of each input, then those of the arena.

    `runtime.cuda.hosted`, which runs the program on arrays of the host, calls it.
    """
    params = [("sizes", lt.PTR), ("bytes", lt.PTR)]
    f = builder.function(transfers_symbol(placed.info.symbol), lt.I32, params)
    sizes, to = f.params
    layout = placed.info.sizes_layout
    names: dict[str, IndexValue] = {
        name: f.load(lt.I64, f.gep(sizes, layout.symbol(n) * SLOT_BYTES), 8)
        for n, name in enumerate(placed.plan.symbols)
    }
    emitter = SizeEmitter(f, names)
    inputs = [shape.bytes for _, shape in parameter_leaves(placed.module)]
    for number, size in enumerate((*inputs, placed.assignment.arena_bytes)):
        f.store(f.as_value(emitter.index(size)), f.gep(to, number * SLOT_BYTES), 8)
    f.ret(f.const(lt.I32, 0))
