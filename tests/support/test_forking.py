# SPDX-License-Identifier: Apache-2.0
"""Forks wait for the work of other threads, and their locks are free in the child."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from ingot.support.forking import ForkLock, deferring_fork, defers_fork, fork_deferred


def in_child(check: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Fork; return whether `check` is true in the child, and it ends in time."""
    pid = os.fork()
    if not pid:
        os._exit(0 if check() else 1)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False


def test_a_fork_waits_for_work_of_other_threads() -> None:
    begun, half_done = threading.Event(), [False]

    def work() -> None:
        with fork_deferred():
            half_done[0] = True
            begun.set()
            time.sleep(0.2)
            half_done[0] = False

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert in_child(lambda: not half_done[0])
    thread.join()


def test_a_lock_is_free_in_the_child() -> None:
    lock, begun = ForkLock(), threading.Event()

    def hold() -> None:
        with lock:
            begun.set()
            time.sleep(0.2)

    def take() -> bool:
        with lock:
            return True

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    assert in_child(take)
    thread.join()
    assert take()


def test_work_goes_on_after_a_fork() -> None:
    double = defers_fork(lambda number: 2 * number)
    for number in range(3):
        assert in_child(lambda: double(4) == 8)
        assert double(number) == 2 * number


def test_a_fork_inside_of_its_own_work() -> None:
    with fork_deferred(), fork_deferred():
        assert in_child(lambda: defers_fork(lambda: True)())
    assert in_child(lambda: True)


def test_helpers_of_work_that_a_fork_waits_for() -> None:
    # The fork waits for the work, the work for its helper: the helper must not wait for the fork.
    begun, found = threading.Event(), list[int]()

    def work() -> None:
        with fork_deferred():
            helper = deferring_fork(lambda: found.append(defers_fork(lambda: 7)()))
            begun.set()
            time.sleep(0.1)
            thread = threading.Thread(target=helper)
            thread.start()
            thread.join()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert in_child(lambda: found == [7])
    thread.join()


def test_helpers_that_outlive_the_work() -> None:
    finish = threading.Event()
    with fork_deferred():
        helper = threading.Thread(target=deferring_fork(finish.wait))
    forked = list[bool]()
    forker = threading.Thread(target=lambda: forked.append(in_child(finish.is_set)))
    forker.start()
    time.sleep(0.1)
    assert not forked
    helper.start()
    finish.set()
    forker.join()
    helper.join()
    assert forked == [True]


def test_work_for_a_helper_may_be_done_by_the_same_thread() -> None:
    with fork_deferred():
        helper = deferring_fork(lambda: in_child(lambda: True))
        assert helper()
        assert in_child(lambda: True)
    assert in_child(lambda: True)


def test_work_that_fails_is_over() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        defers_fork(fail)()
    assert in_child(lambda: True)


def test_forks_of_many_threads() -> None:
    results = list[bool]()

    def fork() -> None:
        for _ in range(5):
            with fork_deferred():
                pass
            results.append(in_child(lambda: True))

    threads = [threading.Thread(target=fork) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 20


def test_work_that_waits_for_a_fork_with_a_lock_that_the_fork_wants() -> None:
    """As a finalizer does that the collector runs while a lock is held."""
    lock, holds, done = ForkLock(), threading.Event(), []

    def work() -> None:
        with lock:
            holds.set()
            time.sleep(0.2)
            with fork_deferred():
                done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    holds.wait()
    assert in_child(lambda: True)
    thread.join()
    assert done == [True]


def test_work_that_waits_for_what_waits_for_the_fork() -> None:
    """As with a lock of another library, which one thread holds and the other one wants."""
    other, begun, holds = threading.Lock(), threading.Event(), threading.Event()
    done = []

    def first() -> None:
        with fork_deferred():
            begun.set()
            holds.wait()
            with other:
                done.append("first")

    def second() -> None:
        begun.wait()
        with other:
            holds.set()
            time.sleep(0.2)
            with fork_deferred():
                done.append("second")

    threads = [threading.Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    holds.wait()
    assert in_child(lambda: True)
    for thread in threads:
        thread.join()
    assert sorted(done) == ["first", "second"]
