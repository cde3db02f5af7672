"""The host program: the schedule of a module as one native function.

`S_sizes` binds symbolic sizes, checks shape constraints and computes sizes; `S_run` calls kernels
in schedule order, loops for `while`, branches for `conditional`, and copies. One execution is one
call; no Python and no lock in between. The execution ABI is described in `ingot.artifact.abi`.
While somebody profiles, each of its sites (`ingot.cpu.sites`) says when it began and ended.

Invariant: every address comes from the buffer assignment; the host program allocates nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ingot.artifact.abi import FRAME_FIELDS, ProgramInfo
from ingot.artifact.artifact import call_symbol
from ingot.cpu.emit.indices import IndexValue
from ingot.cpu.emit.kernel_abi import SLOT_BYTES, CodeSlot, EmittedKernel, Slot
from ingot.cpu.emit.values import ValueEmitter
from ingot.cpu.inlining import VIEWS, held_slices, is_register_loop
from ingot.cpu.kernels import KernelSet, emit_kernel
from ingot.cpu.sites import sites
from ingot.cpu.sizes import SizePlan
from ingot.hlo.assertions import assertions
from ingot.hlo.computation import Computation
from ingot.hlo.custom_calls import call_site, foreign_calls
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.kernel.ir import Kernel
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.values import FunctionRef, Value
from ingot.passes.buffers.buffer_table import BufferAssignment, Constant, Output, Parameter, Slice
from ingot.support.diagnostics import UnsupportedError

RUNTIME_POOL, RUNTIME_PARALLEL, RUNTIME_PROFILE = 0, 8, 16


class HostProgram:
    """Emits `S_run` of one module."""

    def __init__(
        self,
        builder: ModuleBuilder,
        module: Module,
        assignment: BufferAssignment,
        kernels: KernelSet,
        info: ProgramInfo,
        plan: SizePlan,
    ) -> None:
        """Emit into `builder`.

        Args:
            builder: module that gets the function.
            module: scheduled module.
            assignment: where values live.
            kernels: compiled kernels of its fusions.
            info: the ABI description.
            plan: size names in ABI order, and what regions demand of sizes.
        """
        self.module = module
        self.assignment = assignment
        self.kernels = kernels
        self.builder = builder
        params = [
            (name, lt.PTR) for name in ("rt", "inputs", "outputs", "temp", "sizes", "constants")
        ]
        self.f: FunctionBuilder = builder.function(
            info.run_symbol, lt.I32, params, attrs="nounwind uwtable"
        )
        self.runtime, self.inputs, self.outputs, self.temp, sizes, self.constants = self.f.params
        f = self.f
        layout = info.sizes_layout
        names: dict[str, IndexValue] = {
            name: f.load(lt.I64, f.gep(sizes, layout.symbol(n) * SLOT_BYTES), 8)
            for n, name in enumerate(plan.symbols)
        }
        self.emitter = ValueEmitter(f, {}, names, fma=True)
        self.pool = f.load(lt.PTR, f.gep(self.runtime, RUNTIME_POOL), 8)
        self.parallel = f.load(lt.PTR, f.gep(self.runtime, RUNTIME_PARALLEL), 8)
        self.profile = f.load(lt.PTR, f.gep(self.runtime, RUNTIME_PROFILE), 8)
        self.is_profiled = f.icmp("ne", self.profile, f.zero(lt.PTR))
        self._sites = {instruction: number for number, instruction in enumerate(sites(module))}
        calls = foreign_calls(module)
        self._calls = {call: number for number, call in enumerate(calls)}
        failing = [*assertions(module), *calls]
        self._run_errors = {item: code for code, item in enumerate(failing, 1)}
        self._regions = plan.regions
        margins = [(region, n) for region in plan.regions for n in range(len(plan.regions[region]))]
        self._unmet = {place: code for code, place in enumerate(margins, len(failing) + 1)}
        self._bases: dict[tuple[str, int], Value] = {}
        self._load_bases(info)
        self._inlined: dict[str, EmittedKernel] = {}
        self._small = {i for i, name in kernels.names.items() if name in kernels.inlined}
        self._held: dict[Slice, Value] = {}
        self.env = f.alloca(lt.I64, max(1, self._env_slots()), 64)

    def _env_slots(self) -> int:
        return max((k.emitted.slots for k in self.kernels.compiled.values()), default=1)

    def _load_bases(self, info: ProgramInfo) -> None:
        """Load every input and output address at the entry: they dominate all uses."""
        f = self.f
        for kind, table, count in (
            ("input", self.inputs, len(info.params)),
            ("output", self.outputs, len(info.outputs)),
        ):
            for number in range(count):
                address = f.gep(table, number * SLOT_BYTES)
                self._bases[kind, number] = f.load(lt.PTR, address, 8)

    def emit(self) -> None:
        """Emit the whole function."""
        self._copy_donated()
        self.computation(self.module.entry)
        self.f.ret(self.f.const(lt.I32, 0))

    def _copy_donated(self) -> None:
        """Fill outputs that start as a parameter's value when the caller gave another buffer."""
        for output, parameter, size in self.assignment.donations:
            self._copy_unless_same(
                self._bases["output", output], self._bases["input", parameter], size
            )

    def _copy_unless_same(self, target: Value, source: Value, size: int | Dim) -> None:
        f = self.f
        count = self.emitter.index(size)
        f.if_(f.icmp("ne", target, source), lambda: f.memcpy(target, source, count))

    # ---- addresses

    def address(self, instruction: Instruction, path: tuple[int, ...] = ()) -> Value:
        """Return the address of a value's buffer."""
        found = self.assignment.slice_of(instruction, path)
        return self._held.get(found) or self._place(found)

    def _place(self, found: Slice) -> Value:
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
        """Emit the instructions of a computation in schedule order, if sizes let them run."""
        f = self.f
        for number, margin in enumerate(self._regions.get(computation, ())):
            code = f.const(lt.I32, self._unmet[computation, number])
            size = self.emitter.index(margin.size)
            f.if_(f.ilt(size, 0), lambda code=code: f.ret(code), likely=False)
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
        elif opcode == "while":
            self._while(instruction)
        elif opcode == "conditional":
            self._conditional(instruction)
        elif opcode == "copy":
            self._copy(instruction)
        elif instruction in self._calls:
            self._foreign_call(instruction)
        elif instruction in self._run_errors:
            self._assert(instruction)
        else:
            metadata = instruction.metadata
            raise UnsupportedError(
                f"the CPU backend cannot run {opcode}",
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
            target = self.address(instruction, path)
            source = self.address(instruction.operands[0], path)
            if target.text != source.text and shape.is_array:
                f.memcpy(target, source, self.emitter.index(shape.bytes))

    def _fusion(self, instruction: Instruction) -> None:
        addresses = [self.address(operand) for operand in instruction.operands]
        addresses.extend(self.address(instruction, path) for path, _ in instruction.shape.leaves())
        name = self.kernels.names[instruction]
        inlined = self.kernels.inlined.get(name)
        if inlined is None:
            with self._timed(instruction):
                self.call_kernel(self.kernels.of(instruction).emitted, addresses)
        else:
            self._call_inlined(name, inlined, addresses)

    def call_kernel(self, kernel: EmittedKernel, addresses: list[Value]) -> None:
        """Fill env and run every phase of a kernel."""
        self._fill(self.env, kernel, addresses)
        for phase in kernel.phases:
            function = self.builder.declare(phase.symbol, lt.VOID, [lt.PTR, lt.I64])
            self._phase(function, self.emitter.index(phase.chunks))

    def _fill(self, env: Value, kernel: EmittedKernel, addresses: list[Value]) -> None:
        f = self.f
        symbols = map(self._slot, kernel.symbols)
        first, last = kernel.ordered(addresses), kernel.last(addresses)
        values = [*first, self._scratch(), *symbols, *last]
        for number, value in enumerate(values):
            f.store(value, f.gep(env, number * SLOT_BYTES), 8)

    def _call_inlined(self, name: str, kernel: Kernel, addresses: list[Value]) -> None:
        """Call a kernel's functions in this module, which LLVM puts in place of the calls."""
        f = self.f
        emitted = self._inlined.get(name)
        if emitted is None:
            emitted = emit_kernel(self.builder, name, kernel, self.kernels.target)
            assert emitted.scratch_bytes == 0, "small kernels work in registers"
            self._inlined[name] = emitted
            for phase in emitted.phases:
                self.builder.defined(phase.symbol).always_inline()
        # An env of its own never leaves the function, so its slots become registers.
        env = f.alloca(lt.I64, emitted.slots, 64)
        self._fill(env, emitted, addresses)
        for phase in emitted.phases:
            function = self.builder.defined(phase.symbol).reference

            def step(chunk: Value, _: list[Value], to: FunctionRef = function) -> None:
                f.call(to, [env, chunk])

            f.loop(0, self.emitter.index(phase.chunks), 1, [], step)

    def _phase(self, function: FunctionRef, chunks: IndexValue) -> None:
        f = self.f
        if chunks == 0:
            return
        if chunks == 1:
            f.call(function, [self.env, f.const(lt.I64, 0)])
            return
        address = Value(lt.PTR, function.text)
        arguments = [self.pool, address, self.env, f.as_value(chunks)]
        types = [lt.PTR, lt.PTR, lt.PTR, lt.I64]
        f.call_indirect(self.parallel, lt.VOID, types, arguments)

    def _scratch(self) -> Value:
        return self.f.gep(self.temp, self.emitter.index(self.assignment.scratch_offset))

    def _slot(self, held: Slot) -> Value:
        """Return what a slot of env holds: a number, a function's address or a symbolic size."""
        if isinstance(held, int | Dim):
            return self.f.as_value(self.emitter.index(held))
        if isinstance(held, CodeSlot):
            return Value(lt.PTR, self.builder.declare(held.symbol, lt.VOID, []).text)
        return self.f.as_value(self.emitter.names[held])

    def _while(self, instruction: Instruction) -> None:
        if self._held or not is_register_loop(instruction, self.module, self._small):
            with self._timed(instruction):
                self._loop(instruction)
            return
        f = self.f
        slices = held_slices(instruction, self.module, self.assignment)
        state = {
            self.assignment.slice_of(instruction, path)
            for path, shape in instruction.shape.leaves()
            if shape.is_array
        }
        held = {place: self._room_for(place) for place in slices}
        for place in slices:
            if place in state:
                f.memcpy(held[place], self._place(place), self.emitter.index(place.size))
        with self._timed(instruction):
            self._held = held
            self._loop(instruction)
            self._held = {}
        for place in slices:
            if place in state and not isinstance(place.allocation, Parameter):
                f.memcpy(self._place(place), held[place], self.emitter.index(place.size))

    def _room_for(self, place: Slice) -> Value:
        """Return the address of stack memory for a value, a whole number of cache lines."""
        assert isinstance(place.size, int), "what a loop holds is of known size"
        return self.f.alloca(lt.I8, max(64, -(-place.size // 64) * 64), 64)

    def _loop(self, instruction: Instruction) -> None:
        condition = instruction.attributes.condition
        body = instruction.attributes.body
        f = self.f

        def test(_: list[Value]) -> Value:
            self.computation(condition)
            return self._predicate(condition.root)

        def step(_: list[Value]) -> list[Value]:
            self.computation(body)
            return []

        f.while_([], test, step)

    def _assert(self, instruction: Instruction) -> None:
        f = self.f
        code = f.const(lt.I32, self._run_errors[instruction])
        holds = self._predicate(instruction.operands[0])
        f.if_(f.icmp("eq", holds, f.zero(lt.I1)), lambda: f.ret(code), likely=False)

    @contextmanager
    def _timed(self, instruction: Instruction) -> Generator[None]:
        """Tell a profiler when what is emitted meanwhile begins and ends."""
        if self._held:
            yield  # A loop in registers has no time for a question in each turn.
            return
        f = self.f
        start = f.alloca(lt.I64)
        zero = f.const(lt.I64, 0)
        f.if_(self.is_profiled, lambda: self._tell(instruction, zero, start), likely=False)
        yield

        def end() -> None:
            self._tell(instruction, f.load(lt.I64, start), start)

        f.if_(self.is_profiled, end, likely=False)

    def _tell(self, instruction: Instruction, start: Value, to: Value) -> None:
        """Call the profiler; put the time that it says into `to`."""
        f = self.f
        site = f.const(lt.I64, self._sites[instruction])
        arguments = [self.runtime, Value(lt.PTR, f.reference.text), self.constants, site, start]
        types = [lt.PTR, lt.PTR, lt.PTR, lt.I64, lt.I64]
        f.store(f.call_indirect(self.profile, lt.I64, types, arguments), to)

    def _foreign_call(self, instruction: Instruction) -> None:
        """Call registered code: fill a frame, call, end the execution if the call fails."""
        f = self.f
        call = call_site(instruction)
        operands = [
            self._leaf(operand, path, shape)
            for operand in instruction.operands
            for path, shape in operand.shape.leaves()
        ]
        results = [
            self._leaf(instruction, path, shape) for path, shape in instruction.shape.leaves()
        ]
        for result, operand in call.aliases:
            size = call.results[result].bytes
            self._copy_unless_same(results[result], operands[operand], size)
        fields = {
            "runtime": self.runtime,
            "operands": self._table(operands),
            "results": self._table(results),
            "operand_dims": self._table([self._dims(shape) for shape in call.operands]),
            "result_dims": self._table([self._dims(shape) for shape in call.results]),
        }
        frame = self._table([fields[name] for name in FRAME_FIELDS])
        symbol = call_symbol(self._calls[instruction])
        with self._timed(instruction):
            status = f.call(self.builder.declare(symbol, lt.I32, [lt.PTR]), [frame])
        code = f.const(lt.I32, self._run_errors[instruction])
        f.if_(f.icmp("ne", status, f.const(lt.I32, 0)), lambda: f.ret(code), likely=False)

    def _leaf(self, instruction: Instruction, path: tuple[int, ...], shape: Shape) -> Value:
        return self.address(instruction, path) if shape.is_array else self.f.zero(lt.PTR)

    def _dims(self, shape: Shape) -> Value:
        return self._table([self.f.as_value(self.emitter.index(size)) for size in shape.dims])

    def _table(self, values: list[Value]) -> Value:
        """Return the address of 8-byte slots on the stack that hold `values`."""
        f = self.f
        table = f.alloca(lt.I64, max(1, len(values)), 8)
        for number, value in enumerate(values):
            f.store(value, f.gep(table, number * SLOT_BYTES), 8)
        return table

    def _predicate(self, instruction: Instruction) -> Value:
        f = self.f
        byte = f.load(lt.I8, self.address(instruction))
        return f.icmp("ne", byte, f.zero(lt.I8))

    def _conditional(self, instruction: Instruction) -> None:
        index = instruction.operands[0]
        branches = instruction.attributes.branch_computations
        f = self.f
        if index.shape.dtype is PRED:
            f.if_(
                self._predicate(index),
                lambda: self.computation(branches[0]),
                lambda: self.computation(branches[1]),
            )
            return
        number = f.load(lt.I32, self.address(index))
        self._branch(number, branches, 0)

    def _branch(self, number: Value, branches: tuple[Computation, ...], first: int) -> None:
        """Emit branch `first` or a later one; an index out of range takes the last."""
        f = self.f
        if first == len(branches) - 1:
            self.computation(branches[first])
            return
        f.if_(
            f.icmp("eq", number, f.const(lt.I32, first)),
            lambda: self.computation(branches[first]),
            lambda: self._branch(number, branches, first + 1),
        )
