# SPDX-License-Identifier: Apache-2.0
"""The host program: the schedule of a module as two native functions.

`S_sizes` binds symbolic sizes, checks shape constraints and computes sizes; `S_run` runs kernels
in schedule order, loops for `while`, branches for `conditional`, and copies. A computation that a
`call` runs is a function of its own; its callers pass the addresses of its parameters and results.
One execution is one call, without Python or locks in between. `ingot.artifact.abi` describes the
execution ABI. While a profiler is on, each site (`ingot.host.sites`) tells it when it began and
ended. Subclasses, one for each target, say how a kernel is called.

Invariant: every address comes from the buffer assignment; the host program allocates nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from ingot.artifact.abi import CANCELLED, FRAME_FIELDS, SLOT_BYTES, ProgramInfo, runtime_offset
from ingot.artifact.artifact import call_symbol
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.sizes import SizeEmitter
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.host.control import ControlFlow
from ingot.host.placed import PlacedModule
from ingot.host.sites import sites
from ingot.host.size_limits import size_limits
from ingot.host.sizes import computed_sizes, emit_sizes
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import Value
from ingot.passes.buffers.buffer_table import BufferAssignment, Constant, Output, Parameter, Slice
from ingot.semantics.assertions import assertions
from ingot.semantics.custom_calls import CallSite
from ingot.semantics.foreign_calls import call_sites, foreign_calls
from ingot.support.diagnostics import ResourceError
from ingot.support.records import record, replace
from ingot.support.trampoline import Recursion, run

MAX_IN_FUNCTION = 1_000
"""Instructions of a computation in one function: what they keep on its stack, and what LLVM keeps
while it compiles it, does not grow with the program beyond."""

MAX_STACK = 1 << 22
"""Bytes of the stack that nested calls may take, by a generous estimate."""

_LINE_BYTES = 8
"""Stack bytes of a line of LLVM IR, at most on average: a slot for its value. One is typical."""


Outlined = Computation | Sequence[Instruction]
"""What a function of its own runs."""


@record
class _Numbers:
    """The numbers that all functions of one host program share.

    Attributes:
        sites: what a profiler times.
        calls: foreign calls.
        call_sites: the callee of each, by number.
        errors: the run error of each instruction that may fail.
        unmet: the run error of each demand of a region on sizes.
    """

    sites: dict[Instruction, int]
    calls: dict[Instruction, int]
    call_sites: tuple[CallSite, ...]
    errors: dict[Instruction, int]
    unmet: dict[tuple[Computation, int], int]


def _numbers(placed: PlacedModule) -> _Numbers:
    module, regions = placed.module, placed.plan.regions
    calls = foreign_calls(module)
    failing = [*assertions(module), *calls]
    margins = [(region, n) for region in regions for n in range(len(regions[region]))]
    return _Numbers(
        {instruction: number for number, instruction in enumerate(sites(module))},
        {call: number for number, call in enumerate(calls)},
        module.analysis(call_sites),
        {item: code for code, item in enumerate(failing, 1)},
        {margin: code for code, margin in enumerate(margins, len(failing) + 1)},
    )


class HostProgram(ControlFlow):
    """Emits `S_run` of one module, and functions for called computations and deep control flow.

    Attributes:
        outer: the program that has `S_run`.
        constants: address of the constant block.
        temp: address of the arena.
    """

    def __init__(
        self,
        builder: ModuleBuilder,
        placed: PlacedModule,
        outer: HostProgram | None = None,
        function: Computation | None = None,
    ) -> None:
        """Emit into `builder`.

        Args:
            builder: module that gets the function.
            placed: the module, with where its values live.
            outer: the program that has `S_run`; None if this one has it.
            function: the computation whose inputs and outputs are known here; None for the entry.
        """
        params = [
            (name, lt.PTR) for name in ("rt", "inputs", "outputs", "temp", "sizes", "constants")
        ]
        self.outer = outer or self
        self._function = function or placed.module.entry
        self._outlined: list[tuple[HostProgram, Outlined]] = []
        self._functions: dict[Computation, HostProgram] = {}
        self._callees: dict[HostProgram, None] = {}
        self._parts = 0
        symbol, linkage = placed.info.run_symbol, ""
        if outer is not None:
            outer._parts += 1
            symbol, linkage = f"{symbol}_{outer._parts}", "internal"
        f = builder.function(symbol, lt.I32, params, linkage=linkage, attrs="nounwind")
        runtime, self.inputs, self.outputs, self.temp, sizes, self.constants = f.params
        layout = placed.info.sizes_layout
        names: dict[str, IndexValue] = {
            name: f.load(lt.I64, f.gep(sizes, layout.symbol(n) * SLOT_BYTES), 8)
            for n, name in enumerate(placed.plan.symbols)
        }
        emitter = SizeEmitter(f, names)
        self._sizes = emitter
        super().__init__(emitter, runtime, placed)
        self.profile = f.load(lt.PTR, f.gep(runtime, runtime_offset("profile")), 8)
        self.is_profiled = f.icmp("ne", self.profile, f.zero(lt.PTR))
        self._numbers = outer._numbers if outer is not None else _numbers(placed)
        self._bases: dict[tuple[str, int], Value] = {}
        self._load_bases()

    @abstractmethod
    def part(self, function: Computation) -> HostProgram:
        """Return the emitter of a new function, with the inputs and outputs of `function`."""

    @property
    def slots(self) -> int:
        """Slots that each function keeps on the stack for the target."""
        return 0

    def _load_bases(self) -> None:
        """Load every input and output address at the entry: they dominate all uses."""
        f, ends = self.f, self.assignment.ends[self._function]
        for kind, table, ours in (
            ("input", self.inputs, ends.parameters),
            ("output", self.outputs, ends.outputs),
        ):
            for number in range(len(ours)):
                address = f.gep(table, number * SLOT_BYTES)
                self._bases[kind, number] = f.load(lt.PTR, address, 8)

    def emit(self) -> list[Dim]:
        """Emit the function, and those that it calls; return the sizes that they compute."""
        self.poller.first(self.leave)
        self._copy_donated()
        self.computation(self.module.entry)
        self.f.ret(self.f.const(lt.I32, 0))
        asked = dict.fromkeys(self._sizes.asked)
        while self._outlined:
            part, what = self._outlined.pop()
            if isinstance(what, Computation):
                part.computation(what)
            else:
                part.instructions(what)
            part.f.ret(part.f.const(lt.I32, 0))
            asked.update(dict.fromkeys(part._sizes.asked))
        self._require_stack()
        return list(asked)

    def _require_stack(self) -> None:
        size = run(self._stack_bytes({}))
        if size > MAX_STACK:
            raise ResourceError(
                f"nested calls of this program's functions may need {size} bytes of stack, and at "
                f"most {MAX_STACK} are allowed",
                code="INGOT0403",
                hint="nest fewer calls of computations, or make the computations smaller",
            )

    def _stack_bytes(self, known: dict[HostProgram, int]) -> Recursion[int]:
        """Return about how many bytes of the stack this function and its callees take at most."""
        for part in self._callees:
            if part not in known:
                known[part] = yield part._stack_bytes(known)
        own = _LINE_BYTES * (self.f.line_count + self.slots)
        return own + max((known[part] for part in self._callees), default=0)

    def outline(self, instruction: Instruction) -> None:
        """Emit the call of a function that runs a `while` or `conditional`; `emit` fills it."""
        self._run(self._part((instruction,), self._function), self.f.params)

    def _part(self, what: Outlined, function: Computation) -> HostProgram:
        """Return a function that gets the code of `what` later."""
        part = self.part(function)
        self.outer._outlined.append((part, what))
        return part

    def _run(self, part: HostProgram, arguments: Sequence[Value]) -> None:
        """Call another function; end the execution if that ended it."""
        f = self.f
        self._callees[part] = None
        status = f.call(part.f.reference, arguments)
        f.if_(f.icmp("ne", status, f.const(lt.I32, 0)), lambda: f.ret(status), likely=False)

    def _call_function(self, call: Instruction) -> None:
        """Call the function of a computation, which gets the addresses of operands and results."""
        functions, callee = self.outer._functions, call.attributes.to_apply
        if callee not in functions:
            functions[callee] = self._part(callee, callee)
        runtime, _, _, temp, sizes, constants = self.f.params
        inputs, outputs = self.table(self._operands(call)), self.table(self._results(call))
        self._run(functions[callee], [runtime, inputs, outputs, temp, sizes, constants])
        self.poller.check(self.leave)

    def _copy_donated(self) -> None:
        """Fill outputs that start as a parameter's value when the caller gave another buffer."""
        for output, parameter, size in self.assignment.donations:
            self._copy_unless_same(
                self._bases["output", output], self._bases["input", parameter], size
            )

    def _copy_unless_same(self, target: Value, source: Value, size: int | Dim) -> None:
        f = self.f
        count = self.emitter.index(size)
        f.if_(f.icmp("ne", target, source), lambda: self.copy(target, source, count))

    # ---- addresses

    def slice_address(self, found: Slice) -> Value:
        """Return the address of a slice."""
        allocation = found.allocation
        if isinstance(allocation, Parameter):
            base = self._bases["input", allocation.index]
        elif isinstance(allocation, Output):
            base = self._bases["output", allocation.index]
        else:
            base = self.constants if isinstance(allocation, Constant) else self.temp
        return self.f.gep(base, self.emitter.index(found.offset))

    # ---- instructions

    def computation(self, computation: Computation) -> None:
        """Emit the instructions of a computation in schedule order, after checks of their sizes."""
        f = self.f
        for number, margin in enumerate(self.placed.plan.regions.get(computation, ())):
            code = f.const(lt.I32, self._numbers.unmet[computation, number])
            size = self.emitter.index(margin.size)
            f.if_(f.ilt(size, 0), lambda code=code: f.ret(code), likely=False)
        schedule = self.module.schedule[computation]
        if len(schedule) <= MAX_IN_FUNCTION:
            super().computation(computation)
            return
        for first in range(0, len(schedule), MAX_IN_FUNCTION):
            piece = schedule[first : first + MAX_IN_FUNCTION]
            self._run(self._part(piece, self._function), f.params)

    def call(self, instruction: Instruction) -> None:
        """Emit a call, a foreign call or an assertion."""
        if instruction.opcode == "call":
            self._call_function(instruction)
        elif instruction in self._numbers.calls:
            self._foreign_call(instruction)
        elif instruction in self._numbers.errors:
            self._assert(instruction)
        else:
            super().call(instruction)

    def leave(self) -> None:
        """Emit the return of a cancelled execution."""
        self.f.ret(self.f.const(lt.I32, CANCELLED))

    def loop(self, instruction: Instruction) -> None:
        """Emit a `while`."""
        with self.timed(instruction):
            self.rounds(instruction)
        self.poller.check(self.leave)

    def rounds(self, instruction: Instruction) -> None:
        """Emit the iterations of a `while`."""
        super().loop(instruction)

    def _assert(self, instruction: Instruction) -> None:
        f = self.f
        code = f.const(lt.I32, self._numbers.errors[instruction])
        holds = self.predicate(instruction.operands[0])
        f.if_(f.icmp("eq", holds, f.zero(lt.I1)), lambda: f.ret(code), likely=False)

    @contextmanager
    def timed(self, instruction: Instruction) -> Generator[None]:
        """Tell a profiler when the code that is emitted in the `with` block begins and ends."""
        f = self.f
        start = f.alloca(lt.I64)
        zero = f.const(lt.I64, 0)
        f.if_(self.is_profiled, lambda: self._tell(instruction, zero, start), likely=False)
        yield

        def end() -> None:
            self._tell(instruction, f.load(lt.I64, start), start)

        f.if_(self.is_profiled, end, likely=False)

    def site(self, instruction: Instruction) -> int:
        """Return the number of a site that a profiler times."""
        return self._numbers.sites[instruction]

    def _tell(self, instruction: Instruction, start: Value, to: Value) -> None:
        """Call the profiler; store the time that it returns at `to`."""
        f = self.f
        site = f.const(lt.I64, self.site(instruction))
        program = Value(lt.PTR, self.outer.f.reference.text)
        arguments = [self.runtime, program, self.constants, site, start]
        types = [lt.PTR, lt.PTR, lt.PTR, lt.I64, lt.I64]
        f.store(f.call_indirect(self.profile, lt.I64, types, arguments), to)

    def _foreign_call(self, instruction: Instruction) -> None:
        """Call registered code: fill a frame, call, end the execution if the call fails."""
        f = self.f
        number = self._numbers.calls[instruction]
        call = self._numbers.call_sites[number]
        operands, results = self._operands(instruction), self._results(instruction)
        for result, operand in call.aliases:
            size = call.results[result].bytes
            self._copy_unless_same(results[result], operands[operand], size)
        fields = {
            "runtime": self.runtime,
            "operands": self.table(operands),
            "results": self.table(results),
            "operand_dims": self.table([self._dims(shape) for shape in call.operands]),
            "result_dims": self.table([self._dims(shape) for shape in call.results]),
        }
        frame = self.table([fields[name] for name in FRAME_FIELDS])
        symbol = call_symbol(number)
        function = self.builder.declare(symbol, lt.I32, [lt.PTR])
        with self.timed(instruction):
            status = self.foreign(Value(lt.PTR, function.text), frame, call)
        code = f.const(lt.I32, self._numbers.errors[instruction])
        f.if_(f.icmp("ne", status, f.const(lt.I32, 0)), lambda: f.ret(code), likely=False)

    def foreign(self, function: Value, frame: Value, call: CallSite) -> Value:
        """Return the status of a foreign call, given its frame."""
        return self.f.call_indirect(function, lt.I32, [lt.PTR], [frame])

    def _operands(self, instruction: Instruction) -> list[Value]:
        """Return the addresses of the leaves of all operands."""
        return [leaf for operand in instruction.operands for leaf in self._results(operand)]

    def _results(self, instruction: Instruction) -> list[Value]:
        """Return the addresses of the leaves of a result."""
        leaves = instruction.shape.leaves()
        return [self._leaf(instruction, path, shape) for path, shape in leaves]

    def _leaf(self, instruction: Instruction, path: tuple[int, ...], shape: Shape) -> Value:
        return self.address(instruction, path) if shape.is_array else self.f.zero(lt.PTR)

    def _dims(self, shape: Shape) -> Value:
        return self.table([self.f.as_value(self.emitter.index(size)) for size in shape.dims])

    def table(self, values: list[Value]) -> Value:
        """Return the address of 8-byte slots on the stack that hold `values`."""
        f = self.f
        table = f.alloca(lt.I64, max(1, len(values)), 8)
        for number, value in enumerate(values):
            f.store(value, f.gep(table, number * SLOT_BYTES), 8)
        return table


def emit_functions(program: HostProgram) -> ProgramInfo:
    """Emit `S_run` and `S_sizes` into the program's module; return the ABI description.

    It is `program.placed.info` with the limits that `S_sizes` checks.
    """
    placed, builder = program.placed, program.builder
    module, plan, info = placed.module, placed.plan, placed.info
    computed = computed_sizes(module, placed.assignment)
    sizes = (*program.emit(), *plan.checked, *computed)
    limits = size_limits(module, (s for s in sizes if isinstance(s, Dim)), info.largest)
    emit_sizes(builder, plan, info, computed, limits)
    return replace(info, limits=tuple(limit.message for limit in limits))


def constant_block(assignment: BufferAssignment) -> bytes:
    """Return the bytes of the constant block."""
    size = assignment.constant.size
    assert isinstance(size, int), "constants have static sizes"
    block = bytearray(size)
    for constant in assignment.constants:
        data = constant.literal.value.tobytes()
        block[constant.offset : constant.offset + len(data)] = data
    return bytes(block)
