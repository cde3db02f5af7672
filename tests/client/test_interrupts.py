# SPDX-License-Identifier: Apache-2.0
"""Executions end by signals, from other threads and at deadlines, and leave everything usable."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.artifact.steps import Steps
from ingot.runtime.cancellation import Cancellation
from ingot.runtime.native import allocator_statistics
from ingot.support.diagnostics import ExecutionError

COUNTED = """HloModule m
test { s = (s64[], f32[]) parameter(0) i = s64[] get-tuple-element(s), index=0
  z = s64[] constant(-1) ROOT r = pred[] compare(i, z), direction=NE }
turn { s = (s64[], f32[]) parameter(0) i = s64[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1 two = s64[] constant(2) j = s64[] add(i, two)
  y = f32[] multiply(x, x) ROOT r = (s64[], f32[]) tuple(j, y) }
ENTRY e { i = s64[] parameter(0) x = f32[] parameter(1) t = (s64[], f32[]) tuple(i, x)
  ROOT r = (s64[], f32[]) while(t), condition=test, body=turn }"""
"""Endless for an even number; an odd negative one is counted to -1."""


def _twice(number: int) -> str:
    """Return a computation that calls the one before it twice."""
    before = f"c{number - 1}"
    return f"""c{number} {{ s = (s64[], f32[]) parameter(0)
      t = (s64[], f32[]) call(s), to_apply={before}
      ROOT r = (s64[], f32[]) call(t), to_apply={before} }}"""


CALLS = (
    """HloModule m
c0 { s = (s64[], f32[]) parameter(0) i = s64[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1 one = s64[] constant(3) j = s64[] multiply(i, one)
  y = f32[] sine(x) ROOT r = (s64[], f32[]) tuple(j, y) }
"""
    + "\n".join(map(_twice, range(1, 60)))
    + """
ends { s = (s64[], f32[]) parameter(0) i = s64[] constant(-1)
  x = f32[] get-tuple-element(s), index=1 ROOT r = (s64[], f32[]) tuple(i, x) }
ENTRY e { i = s64[] parameter(0) x = f32[] parameter(1) t = (s64[], f32[]) tuple(i, x)
  one = s64[] constant(1) low = s64[] and(i, one) k = s32[] convert(low)
  ROOT r = (s64[], f32[]) conditional(k, t, t), branch_computations={c59, ends} }"""
)
"""No loop, but 2^59 calls for an even number."""

PROGRAMS = {
    "calls": (CALLS, np.float32(1)),
    "registers": (COUNTED, np.float32(1)),
    "host": (
        COUNTED.replace("f32[]", "f32[64,64]").replace(
            "multiply(x, x)", "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        ),
        np.zeros((64, 64), np.float32),
    ),
    "symbolic": (COUNTED.replace("f32[]", "f32[?n]"), np.zeros(20000, np.float32)),
}


@pytest.fixture(params=PROGRAMS)
def endless(request: pytest.FixtureRequest) -> Iterator[tuple[ingot.Executable, Any]]:
    """Give a program that ends for odd numbers; look that it still does, and holds nothing."""
    text, x = PROGRAMS[request.param]
    program = ingot.compile(ingot.parse_hlo(text))
    assert isinstance(program.artifact.host, Steps) == (request.param == "registers")
    program(np.int64(-7), x)
    before = allocator_statistics().bytes_in_use
    yield program, x
    assert allocator_statistics().bytes_in_use == before
    assert program(np.int64(-7), x)[0] == -1


def _later(seconds: float, action: Any, *args: Any) -> threading.Timer:
    timer = threading.Timer(seconds, action, args)
    timer.start()
    return timer


def _send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("donate", [(), (1,)], ids=["call", "donated"])
def test_ctrl_c_ends_a_loop(endless: tuple[ingot.Executable, Any], donate: tuple[int, ...]) -> None:
    program, x = endless
    timer = _later(0.1, _send, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        program(np.int64(0), np.copy(x), donate=donate)
    timer.join()


def test_what_a_signal_handler_raises_is_raised(endless: tuple[ingot.Executable, Any]) -> None:
    program, x = endless

    def refuse(*_: object) -> None:
        raise TimeoutError("too late")

    before = signal.signal(signal.SIGALRM, refuse)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(TimeoutError, match="too late"):
            program(np.int64(0), x)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_handler_runs_and_the_loop_goes_on(endless: tuple[ingot.Executable, Any]) -> None:
    program, x = endless
    cancellation = Cancellation()
    seen: list[float] = []

    def note(*_: object) -> None:
        seen.append(time.monotonic())
        if len(seen) == 2:
            cancellation.cancel()

    before = signal.signal(signal.SIGUSR1, note)
    try:
        timers = [_later(wait, _send, signal.SIGUSR1) for wait in (0.1, 0.3)]
        with pytest.raises(ExecutionError, match="INGOT0511"):
            program.run(np.int64(0), x, cancellation=cancellation)
        for timer in timers:
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen[1] - seen[0] > 0.1


def test_another_thread_ends_an_execution(endless: tuple[ingot.Executable, Any]) -> None:
    program, x = endless
    cancellation, other = Cancellation(), Cancellation()
    other.cancel()
    timer = _later(0.1, cancellation.cancel)
    with pytest.raises(ExecutionError, match="INGOT0511"):
        program.run(np.int64(0), x, cancellation=cancellation)
    timer.join()
    assert cancellation.is_cancelled
    with pytest.raises(ExecutionError, match="INGOT0511"):
        program.run(np.int64(-7), x, cancellation=cancellation)


def test_an_execution_ends_at_its_deadline(endless: tuple[ingot.Executable, Any]) -> None:
    program, x = endless
    cancellation = Cancellation(seconds=0.1)
    with pytest.raises(ExecutionError, match="INGOT0511"):
        program.run(np.int64(0), x, cancellation=cancellation)
    assert cancellation.is_cancelled
    assert program.run(np.int64(-7), x, cancellation=Cancellation(seconds=60))[0] == -1


def test_executions_of_other_threads_end_one_by_one(endless: tuple[ingot.Executable, Any]) -> None:
    program, x = endless
    cancellations = [Cancellation() for _ in range(3)]
    ended: list[int] = []

    def run(number: int) -> None:
        with pytest.raises(ExecutionError, match="INGOT0511"):
            program.run(np.int64(0), x, cancellation=cancellations[number])
        ended.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in (1, 0, 2):
        cancellations[number].cancel()
        threads[number].join()
    assert ended == [1, 0, 2]


def test_the_last_kernel_may_be_followed_by_the_end() -> None:
    program = ingot.compile(
        ingot.parse_hlo("HloModule m ENTRY e { p = f32[9] parameter(0) ROOT r = f32[9] negate(p) }")
    )
    cancellation = Cancellation()
    assert program.run(np.ones(9, np.float32), cancellation=cancellation)[0] == -1
    cancellation.cancel()
    with pytest.raises(ExecutionError, match="INGOT0511"):
        program.run(np.ones(9, np.float32), cancellation=cancellation)


def test_a_forked_child_sees_signals(endless: tuple[ingot.Executable, Any]) -> None:
    program, x = endless
    child = os.fork()
    if child == 0:
        _later(0.1, _send, signal.SIGINT)
        try:
            program(np.int64(0), x)
        except KeyboardInterrupt:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
