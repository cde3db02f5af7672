# SPDX-License-Identifier: Apache-2.0
"""Results that helper threads make."""

import os
import subprocess
import sys
import threading
import time

import pytest

from ingot.support import later
from ingot.support.later import Later


@pytest.fixture(params=[1, 2, 8])
def cpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(later, "usable_cpus", lambda: request.param)
    return request.param


def test_a_job_is_called_once(cpus: int) -> None:
    calls: list[int] = []

    def job(number: int) -> int:
        calls.append(number)
        time.sleep(0.001)
        return number

    def made(number: int) -> Later[int]:
        return Later(lambda: job(number))

    results = [made(number) for number in range(40)]
    for result in results:
        result.begin()
        result.begin()
    waiting = [threading.Thread(target=result.result) for result in results]
    for thread in waiting:
        thread.start()
    assert [result.result() for result in reversed(results)] == list(reversed(range(40)))
    for thread in waiting:
        thread.join()
    assert sorted(calls) == list(range(40))
    assert {result.result() for result in results} == set(range(40))


def test_a_helper_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "usable_cpus", lambda: 2)
    began = threading.Event()
    result = Later(began.set)
    result.begin()
    assert began.wait(60)


def test_without_another_cpu_no_thread_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "usable_cpus", lambda: 1)
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread"))
    result = Later(threading.current_thread)
    result.begin()
    assert result.result() is threading.current_thread()


def test_without_a_thread_the_work_is_done_by_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(later, "usable_cpus", lambda: 2)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    result = Later(threading.current_thread)
    result.begin()
    assert result.result() is threading.current_thread()


def test_an_error_is_that_of_who_needs_the_result(cpus: int) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    result, other = Later(fail), Later(lambda: 1)
    result.begin()
    other.begin()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            result.result()
    assert other.result() == 1


def test_a_result_that_is_there_needs_no_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "_put", lambda _: pytest.fail("queued"))
    result = later.made(3)
    result.begin()
    assert result.result() == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_for_the_helpers_and_a_child_has_its_own() -> None:
    script = """
import os, time
from ingot.support import later
from ingot.support.later import Later
later.usable_cpus = lambda: 3
def job(n):
    time.sleep(0.01)
    return n
def made(n):
    return Later(lambda: job(n))
results = [made(n) for n in range(12)]
for result in results:
    result.begin()
child = os.fork()
assert all(result._made for result in results)
more = [made(n) for n in range(6)]
for result in more:
    result.begin()
assert [result.result() for result in results + more] == [*range(12), *range(6)]
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("done")
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "done", done.stderr
