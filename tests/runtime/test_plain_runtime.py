# SPDX-License-Identifier: Apache-2.0
"""Programs of steps and of stages, the profiler and Ctrl-C: the runtime as plain Python.

The machine code of the same functions runs in every test that executes something.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from ingot.artifact.abi import ARENA_SLOT, CANCELLED, RUNTIME_FIELDS
from ingot.artifact.steps import FIRST_INPUT, HEADER, RUNTIME, TEMP, Slot, Step, Steps
from ingot.native.functions import HostFunction, native, replaced
from ingot.native.memory import raw_address
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.executor import execute, profiler, steps
from ingot.runtime.python import interrupts as python_interrupts
from ingot.runtime.python.objects import CPYTHON, INTERRUPTS
from ingot.runtime.records import Buffers, Dims, Program, Runtime
from ingot.runtime.threading import interrupts


@native
def trace_chunk(env: Pointer | None, chunk: i64) -> None:
    words = Array[i64].at(env)
    called.append((chunk, [words[index] for index in range(3)]))


@native
def all_chunks(
    pool: Pointer, function: Callable[[Pointer | None, i64], None], env: Pointer | None, chunks: i64
) -> None:
    for chunk in range(chunks):
        function(env, chunk)


@native
def never(runtime: Runtime, first: i64) -> i32:
    return CANCELLED if ends else 0


called: list[tuple[int, list[int]]] = []
ends: list[int] = []


@pytest.fixture
def runtime():
    called.clear()
    ends.clear()
    counter = Array[i64].on_stack(1)
    record = Runtime.on_stack()
    record.attention, record.poll, record.parallel = counter, never, all_chunks
    record.pool = counter  # nobody looks into it
    yield record
    assert counter.address


def _table(with_site=False):
    slots = (Slot(FIRST_INPUT, 8), Slot(FIRST_INPUT + 1, 0), Slot(TEMP, 64))
    rows = [
        Step(slots, (("chunk", 3), ("chunk", 1)), 7 if with_site else -1),
        Step((*slots[:2], Slot(RUNTIME, 0)), (("chunk", 1),)),
    ]
    block = Steps.of(1, 1, [0, 8, 2], rows).block({"chunk": trace_chunk.address}, b"")
    memory = (ctypes.c_int64 * (len(block) // 8)).from_buffer_copy(block)
    return Pointer(ctypes.addressof(memory), memory)


def _run(runtime, table):
    inputs, outputs, sizes = Buffers.on_stack(1), Buffers.on_stack(1), Array[i64].on_stack(3)
    inputs[0], outputs[0] = Pointer(1000), Pointer(2000)
    assert steps.steps_sizes(Dims.on_stack(1), sizes, steps.Table.at(table)) == 0
    assert [sizes[index] for index in range(3)] == [0, 8, 2]
    return steps.steps_run(runtime, inputs, outputs, Pointer(3000), sizes, table)


def test_tables_begin_with_the_header_and_programs_read_these_fields():
    assert steps.Table.c_layout.names == HEADER
    assert Runtime.c_layout.names[: len(RUNTIME_FIELDS)] == RUNTIME_FIELDS


def test_steps_call_their_kernels(runtime):
    assert _run(runtime, _table()) == 0
    env, last = [1008, 2000, 3064], [1008, 2000, runtime.address]
    assert called == [(0, env), (1, env), (2, env), (0, env), (0, last)]


def test_steps_end_where_a_poll_says_so(runtime):
    runtime.cancelled.store(1)
    assert _run(runtime, _table()) == CANCELLED
    assert called == []
    runtime.cancelled.store(0)
    ends.append(1)
    assert _run(runtime, _table()) == 0
    counter = Array[i64].at(runtime.attention)
    native_chunk = trace_chunk.function
    trace_chunk.function = lambda env, chunk: (native_chunk(env, chunk), advance())

    def advance():
        counter[0] += 1

    try:
        called.clear()
        assert _run(runtime, _table()) == CANCELLED
    finally:
        trace_chunk.function = native_chunk
    assert len(called) == 4


def test_steps_that_are_sites_are_profiled(runtime):
    events = (profiler.Event.c_layout.structure * 2)()
    profiler.STATE.events = Pointer(ctypes.addressof(events))
    profiler.STATE.capacity = 1
    runtime.profile, runtime.partition = profiler.profile, 3
    times = iter(range(5, 99, 5))

    def clock(kind, time):
        time.seconds, time.nanoseconds = 1, next(times)
        return 0

    table = _table(with_site=True)
    with replaced(clock_gettime=clock, pthread_self=lambda: 77):
        assert _run(runtime, table) == 0
        assert _run(runtime, table) == 0  # there is no room for its event
    (event, none), second = events, 1_000_000_000
    assert (event.site, event.start, event.end) == (7, second + 5, second + 10)
    assert (event.thread, event.partition, event.constants) == (77, 3, table.address)
    assert (profiler.STATE.next.load(), none.end) == (2, 0)
    profiler.STATE.next.store(0)


@pytest.mark.parametrize(("arena", "status"), [(0, 0), (128, 0), (128, 4), (-1, -3)])
def test_programs_get_an_arena_and_give_it_back(runtime, arena, status, monkeypatch):
    given = []

    @native
    def sizes_of(in_dims: Dims, sizes: Array[i64], constants: Pointer | None) -> i32:
        sizes[ARENA_SLOT] = arena
        return 2 if arena < 0 else 0

    @native
    def run(
        runtime: Runtime,
        inputs: Buffers,
        outputs: Buffers,
        temp: Pointer | None,
        sizes: Array[i64],
        constants: Pointer | None,
    ) -> i32:
        given.append(raw_address(temp))
        return status

    monkeypatch.setattr(execute, "allocate", lambda size: Pointer(size * 10))
    monkeypatch.setattr(execute, "free", lambda block: given.append(raw_address(block)))
    program = Program.on_stack()
    program.sizes, program.run, program.runtime = sizes_of, run, runtime
    program.num_sizes, program.release_gil_bytes = 1, 1
    args = (Buffers.on_stack(1), Dims.on_stack(1), Buffers.on_stack(1))
    assert execute.call(program, *args) == status
    assert given == ([] if arena < 0 else [arena * 10] * 2)


def test_polls_see_deadlines_and_cancellations(runtime):
    with replaced(clock_gettime=lambda kind, time: setattr(time, "nanoseconds", 50) or 0):
        assert interrupts.poll(runtime, 0) == 0
        for deadline, expected in ((51, 0), (50, CANCELLED), (7, CANCELLED)):
            runtime.deadline = deadline
            before = interrupts.STATE.attention.load()
            assert interrupts.poll(runtime, 0) == expected
            assert interrupts.STATE.attention.load() == before + (expected != 0)
    runtime.deadline = 0
    runtime.cancelled.store(1)
    assert interrupts.poll(runtime, 0) == CANCELLED


def test_ctrl_c_ends_executions_that_began_before(monkeypatch):
    asked = []
    monkeypatch.setattr(python_interrupts, "install_handler", lambda: None)
    CPYTHON.add_pending_call = HostFunction(lambda function, argument: asked.append(function) or 0)
    CPYTHON.ensure_gil = HostFunction(lambda: 1)
    CPYTHON.release_gil = HostFunction(lambda state: None)
    CPYTHON.dec_ref = HostFunction(lambda object_: None)
    CPYTHON.true = Pointer(4)
    CPYTHON.vectorcall = HostFunction(lambda *_: CPYTHON.true)
    before = interrupts.STATE.attention.load()
    INTERRUPTS.previous.store(HostFunction(lambda number, info, context: asked.append(number)))
    python_interrupts.on_interrupt(2, None, None)
    with replaced(pthread_self=lambda: 5):
        for _ in range(4):
            assert python_interrupts.check(before) == 0
            python_interrupts.tick()
        assert python_interrupts.check(before) == 1  # the main thread did not answer
        assert python_interrupts.check(before + 1) == 0
    assert asked == [2, python_interrupts.answer]
