# SPDX-License-Identifier: Apache-2.0
"""One execution on one device as machine code: `ingot_pjrt_launch`.

Check arguments, donate, allocate outputs, run or queue. The slot Execute calls it, and so does
Python for each device of an execution on several. A program whose inputs are there runs in the call
if it is short, or if the host is expected to wait for it (`hot_waits`); any other becomes a job of
the device's worker, its outputs are allocated at once and ready later.

Invariant: an argument that is donated has no storage afterwards, whether or not an output could
take it over; nothing has changed if an error is returned before the program ran.

Source: donation as XLA's CPU client does it: memory that a host view shows is not donated, and host
memory that is used in place is copied.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.client.pjrt.c_api import record
from ingot.client.pjrt.emit import (
    add_reference,
    is_null,
    return_static,
    runtime_function,
    static_error,
    unless_null,
    when,
)
from ingot.client.pjrt.hot_buffers import (
    INVALID_ARGUMENT,
    BufferFunctions,
    is_ready,
    pending_event,
)
from ingot.client.pjrt.hot_donation import emit_mark
from ingot.client.pjrt.hot_events import EventFunctions
from ingot.client.pjrt.hot_queue import emit_wait_turn, label_job
from ingot.client.pjrt.hot_waits import emit_clock, emit_note_launch, emit_note_return
from ingot.client.pjrt.hot_worker import WorkerFunctions, load_data
from ingot.client.pjrt.records import (
    ARGUMENT,
    BUFFER,
    DEVICE,
    EXECUTABLE,
    INLINE,
    JOB,
    OUTPUT,
    QUEUED,
    STORAGE,
)
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I8, I32, I64, PTR, Type
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.execute import OUT_OF_MEMORY, emit_stack_array

_RESOURCE_EXHAUSTED = 8
_ERRORS = {
    "count": (INVALID_ARGUMENT, "Execution supplied another number of buffers than parameters."),
    "size": (INVALID_ARGUMENT, "An argument's buffer has another size than the parameter."),
    "donated": (
        INVALID_ARGUMENT,
        "Attempt to donate the same buffer twice in Execute(), or to donate a buffer that the same "
        "call to Execute() also uses (donate_argnums: pass a copy for one of the two arguments).",
    ),
    "memory": (_RESOURCE_EXHAUSTED, "Out of memory while starting a program."),
}

_OPTIONS = record("PJRT_ExecuteOptions")

LAUNCH_PARAMETERS: list[tuple[str, Type]] = [
    *(("executable", PTR), ("program", PTR), ("arguments", PTR), ("results", PTR)),
    *(("options", PTR), ("device", PTR), ("mode", I32), ("complete", PTR)),
]
"""Of `ingot_pjrt_launch`: `arguments` and `results` are PJRT_Buffer*[], `complete` is where an
event for the end goes, or null."""


class Launch:
    """`ptr ingot_pjrt_launch(...)` under construction."""

    def __init__(
        self,
        module: ModuleBuilder,
        events: EventFunctions,
        buffers: BufferFunctions,
        worker: WorkerFunctions,
    ) -> None:
        self.module, self.events, self.buffers, self.worker = module, events, buffers, worker
        self.errors = {
            name: static_error(module, f"{name}_error", code, text)
            for name, (code, text) in _ERRORS.items()
        }
        module.global_text("executions", "internal global i64 0")
        self.mark = emit_mark(module)
        self.f: FunctionBuilder = module.function("ingot_pjrt_launch", PTR, LAUNCH_PARAMETERS)
        names = [name for name, _ in LAUNCH_PARAMETERS]
        self.given = dict(zip(names, self.f.params, strict=True))
        self.executable = self.given["executable"]
        self.num_inputs = EXECUTABLE.load(self.f, self.executable, "num_arguments")
        self.num_outputs = EXECUTABLE.load(self.f, self.executable, "num_outputs")
        self.inputs = emit_stack_array(self.f, PTR, self.num_inputs)
        self.outputs = emit_stack_array(self.f, PTR, self.num_outputs)
        self.donated = emit_stack_array(self.f, I8, self.num_inputs)

    def emit(self) -> FunctionRef:
        """Write the whole function."""
        f = self.f
        begin = emit_clock(f)
        long = f.icmp("eq", self.given["mode"], f.const(I32, QUEUED))
        when(f, long, lambda: emit_wait_turn(f, self.given["device"]))
        ready = self.read_arguments()
        donates = f.icmp("ne", EXECUTABLE.load(f, self.executable, "donates"), f.const(I8, 0))
        when(f, donates, self.check_donations)
        idle = self.is_idle()
        f.loop(0, self.num_outputs, 1, [], lambda index, _: self.make_output(index, donates))
        self.give_buffers()
        awaited = emit_note_launch(f, self.executable, self.given["device"])
        short = f.icmp("eq", self.given["mode"], f.const(I32, INLINE))
        # A donated memory may still be read by a job that was queued before.
        short = f.and_(short, f.or_(f.xor(donates, f.as_condition(True)), idle))
        here = f.or_(short, f.and_(f.and_(long, awaited), idle))
        (event,) = f.if_(f.and_(here, ready), self.run, self.queue, likely=True)
        when(f, donates, self.take_donations)
        self.end_inputs(self.num_inputs)
        complete = self.given["complete"]

        def tell() -> None:
            add_reference(f, event)
            f.store(event, complete)

        unless_null(f, complete, tell)
        f.call(self.events.release, [event])
        emit_note_return(f, self.given["device"], begin)
        f.ret(zero(PTR))
        return f.reference

    def each_input(self, body: Callable[[Value, Value], None]) -> None:
        """Emit a loop over all arguments: `body(index, buffer)`."""
        f = self.f

        def one(index: Value, _: list[Value]) -> None:
            body(index, f.load(PTR, f.gep(self.given["arguments"], index, PTR)))

        f.loop(0, self.num_inputs, 1, [], one)

    def argument(self, index: Value, name: str) -> Value:
        """Load a field of the description of an argument."""
        table = EXECUTABLE.load(self.f, self.executable, "arguments")
        return ARGUMENT.load(self.f, ARGUMENT.element(self.f, table, index), name)

    def fail(self, name: str) -> None:
        """Return one of the static errors, with all arguments in use."""
        self.end_inputs(self.num_inputs)
        self.f.ret(return_static(self.f, self.errors[name]))

    def explain(self, status: Value) -> Value:
        """Return the error for a status of the execution."""
        values = [self.executable, self.given["program"], status]
        return self.f.call(self.worker.failure, values)

    def end_inputs(self, count: Value) -> None:
        """End the use of the first arguments."""
        f = self.f

        def one(index: Value, _: list[Value]) -> None:
            f.call(self.buffers.unuse, [f.load(PTR, f.gep(self.given["arguments"], index, PTR))])

        f.loop(0, count, 1, [], one)

    def read_arguments(self) -> Value:
        """Use the storage of every argument from now on; return whether all data is there."""
        f = self.f

        def one(index: Value, ready: list[Value]) -> list[Value]:
            buffer = f.load(PTR, f.gep(self.given["arguments"], index, PTR))
            storage = f.call(self.buffers.use, [buffer])

            def refuse(error: Value, used: Value) -> None:
                self.end_inputs(used)
                f.ret(return_static(f, error))

            gone = is_null(f, storage)
            f.if_(gone, lambda: refuse(self.buffers.deleted, index), likely=False)
            wrong = f.icmp("ne", BUFFER.load(f, buffer, "bytes"), self.argument(index, "bytes"))
            used = f.add(index, f.const(I64, 1))
            f.if_(wrong, lambda: refuse(self.errors["size"], used), likely=False)
            f.store(storage, f.gep(self.inputs, index, PTR))
            here = f.zext(is_ready(f, storage), I64)
            return [f.and_(ready[0], here)]

        (ready,) = f.loop(0, self.num_inputs, 1, [f.const(I64, 1)], one)
        return f.icmp("ne", ready, f.const(I64, 0))

    def is_idle(self) -> Value:
        """Return whether no job of the device is queued or running."""
        unfinished = DEVICE.address(self.f, self.given["device"], "unfinished")
        count = self.f.atomic_load(I64, unfinished, "acquire")
        return self.f.icmp("eq", count, self.f.const(I64, 0))

    def check_donations(self) -> None:
        """Note which arguments are donated now; fail if one of them is also used otherwise."""
        f = self.f

        def copy(index: Value, _: list[Value]) -> None:
            # Memory that a host view shows is not given away: the buffer stays as it is.
            storage = f.load(PTR, f.gep(self.inputs, index, PTR))
            seen = f.icmp("ne", STORAGE.load(f, storage, "external"), f.const(I64, 0))
            wish = self.argument(index, "donated")
            f.store(f.select(seen, f.const(I8, 0), wish), f.gep(self.donated, index))

        f.loop(0, self.num_inputs, 1, [], copy)
        options = self.given["options"]

        def exceptions() -> None:
            indices = _OPTIONS.load(f, options, "non_donatable_input_indices")
            count = _OPTIONS.load(f, options, "num_non_donatable_input_indices")

            def one(index: Value, _: list[Value]) -> None:
                at = f.load(I64, f.gep(indices, index, I64))
                f.store(f.const(I8, 0), f.gep(self.donated, at))

            f.loop(0, count, 1, [], one)

        unless_null(f, options, exceptions)
        counter = Value(PTR, "@executions")
        number = f.add(f.atomicrmw("add", counter, f.const(I64, 1)), f.const(I64, 1))
        values = [self.given["arguments"], self.donated, self.num_inputs, number]
        twice = f.icmp("ne", f.call(self.mark, values), f.const(I32, 0))
        f.if_(twice, lambda: self.fail("donated"), likely=False)

    def output(self, index: Value) -> Value:
        """Return the description of an output."""
        return OUTPUT.element(self.f, EXECUTABLE.load(self.f, self.executable, "outputs"), index)

    def make_output(self, index: Value, donates: Value) -> None:
        """Find memory for output `index`: a donated argument's, or new."""
        f = self.f
        output = self.output(index)
        alias = OUTPUT.load(f, output, "alias")

        def may_alias() -> list[Value]:
            storage = f.load(PTR, f.gep(self.inputs, alias, PTR))
            gives = f.icmp("ne", f.load(I8, f.gep(self.donated, alias)), f.const(I8, 0))
            ours = is_null(f, STORAGE.load(f, storage, "release"))
            usable = f.and_(gives, ours)

            def reuse() -> list[Value]:
                add_reference(f, storage)
                return [storage]

            return f.if_(usable, reuse, otherwise=[zero(PTR)])

        wanted = f.and_(donates, f.icmp("sge", alias, f.const(I64, 0)))
        (reused,) = f.if_(wanted, may_alias, otherwise=[zero(PTR)])

        def allocate() -> list[Value]:
            return [f.call(self.buffers.new_storage, [OUTPUT.load(f, output, "bytes")])]

        (storage,) = f.if_(is_null(f, reused), allocate, otherwise=[reused])

        def no_memory() -> None:
            self.drop_outputs(f.const(I64, 0), index)
            self.end_inputs(self.num_inputs)
            f.ret(self.explain(f.const(I32, OUT_OF_MEMORY)))

        f.if_(is_null(f, storage), no_memory, likely=False)
        f.store(storage, f.gep(self.outputs, index, PTR))

    def drop_outputs(self, first: Value, end: Value) -> None:
        """Give output storages back that have no buffer yet."""
        f = self.f

        def one(index: Value, _: list[Value]) -> None:
            f.call(self.buffers.release_storage, [f.load(PTR, f.gep(self.outputs, index, PTR))])

        f.loop(first, end, 1, [], one)

    def drop_buffers(self, count: Value) -> None:
        """Destroy the buffers of the first outputs."""
        f = self.f

        def one(index: Value, _: list[Value]) -> None:
            result = f.gep(self.given["results"], index, PTR)
            f.call(self.buffers.destroy, [f.load(PTR, result)])
            f.store(zero(PTR), result)

        f.loop(0, count, 1, [], one)

    def run(self) -> list[Value]:
        """Run the program in this call; return an event that has happened."""
        f = self.f
        inputs = load_data(f, self.inputs, self.num_inputs)
        outputs = load_data(f, self.outputs, self.num_outputs)
        sizes = EXECUTABLE.load(f, self.executable, "sizes")
        program = self.given["program"]
        execute = runtime_function(self.module, "ingot_execute")
        status = f.call(execute, [program, inputs, outputs, sizes])

        def failed() -> None:
            self.drop_buffers(self.num_outputs)
            self.end_inputs(self.num_inputs)
            f.ret(self.explain(status))

        f.if_(f.icmp("ne", status, f.const(I32, 0)), failed, likely=False)
        add_reference(f, self.events.ready)
        return [self.events.ready]

    def queue(self) -> list[Value]:
        """Make a job of this execution; return its event."""
        f = self.f
        slots = f.add(f.add(self.num_inputs, self.num_inputs), self.num_outputs)
        size = f.add(f.shl(slots, f.const(I64, 3)), f.const(I64, JOB.size))
        job = f.call(runtime_function(self.module, "ingot_allocate"), [size])

        def no_job() -> None:
            self.drop_buffers(self.num_outputs)
            self.fail("memory")

        f.if_(is_null(f, job), no_job, likely=False)
        event = f.call(self.events.new, [])

        def no_event() -> None:
            f.call(runtime_function(self.module, "ingot_free"), [job])
            no_job()

        f.if_(is_null(f, event), no_event, likely=False)
        f.memset(job, 0, JOB.size)
        inputs = f.gep(job, JOB.size)
        input_events = f.gep(inputs, self.num_inputs, PTR)
        outputs = f.gep(input_events, self.num_inputs, PTR)
        fields = {
            "executable": self.executable,
            "program": self.given["program"],
            "event": event,
            "num_inputs": self.num_inputs,
            "inputs": inputs,
            "input_events": input_events,
            "num_outputs": self.num_outputs,
            "outputs": outputs,
        }
        for name, value in fields.items():
            JOB.store(f, job, name, value)
        label_job(f, job, self.given["options"], self.given["mode"])
        self.keep_inputs(inputs, input_events)
        self.promise_outputs(outputs, event)
        add_reference(f, self.executable)
        add_reference(f, event)
        f.call(self.worker.submit, [self.given["device"], job])
        return [event]

    def keep_inputs(self, inputs: Value, input_events: Value) -> None:
        """Let the job hold the inputs, and the events that it waits for."""
        f = self.f

        def one(index: Value, _: list[Value]) -> None:
            storage = f.load(PTR, f.gep(self.inputs, index, PTR))
            add_reference(f, storage)
            f.store(storage, f.gep(inputs, index, PTR))
            f.store(pending_event(f, storage), f.gep(input_events, index, PTR))

        f.loop(0, self.num_inputs, 1, [], one)

    def promise_outputs(self, outputs: Value, event: Value) -> None:
        """Let the job hold the outputs, and their data wait for the job's event."""
        f = self.f

        def one(index: Value, _: list[Value]) -> None:
            storage = f.load(PTR, f.gep(self.outputs, index, PTR))
            add_reference(f, storage)
            add_reference(f, event)
            before = STORAGE.load(f, storage, "event")
            STORAGE.store(f, storage, "event", event)
            f.call(self.events.release, [before])
            f.store(storage, f.gep(outputs, index, PTR))

        f.loop(0, self.num_outputs, 1, [], one)

    def give_buffers(self) -> None:
        """Make the buffers of all outputs, before anything runs."""
        f, device = self.f, self.given["device"]

        def one(index: Value, _: list[Value]) -> None:
            output = self.output(index)
            at = f.sext(OUTPUT.load(f, output, "memory_index"), I64)
            memory = f.load(PTR, f.gep(DEVICE.load(f, device, "memories"), at, PTR))
            names = ("type", "dims", "rank", "bytes")
            shape = [OUTPUT.load(f, output, name) for name in names]
            storage = f.load(PTR, f.gep(self.outputs, index, PTR))
            buffer = f.call(self.buffers.new, [storage, *shape, device, memory])

            def no_memory() -> None:
                self.drop_buffers(index)
                self.drop_outputs(index, self.num_outputs)
                self.fail("memory")

            f.if_(is_null(f, buffer), no_memory, likely=False)
            f.store(buffer, f.gep(self.given["results"], index, PTR))

        f.loop(0, self.num_outputs, 1, [], one)

    def take_donations(self) -> None:
        """Delete the donated arguments: their storages go when they are not in use any more."""
        f = self.f

        def one(index: Value, buffer: Value) -> None:
            gives = f.icmp("ne", f.load(I8, f.gep(self.donated, index)), f.const(I8, 0))
            when(f, gives, lambda: f.call(self.buffers.discard, [buffer]))

        self.each_input(one)
