# SPDX-License-Identifier: Apache-2.0
"""Calls of LAPACK in one thread, as plain Python: afterwards the number is what it was."""

import pytest

from ingot.native.functions import replaced
from ingot.runtime.foreign.lapack.one_thread import ThreadState, enter, leave


class Blas:
    """A BLAS whose number of threads can be set."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.calls: list[int] = []

    def get(self) -> int:
        return self.threads

    def set(self, count: int) -> None:
        self.threads = count
        self.calls.append(count)


@pytest.mark.parametrize(("threads", "calls"), [(1, []), (2, [1, 2]), (16, [1, 16])])
def test_the_first_sets_one_and_the_last_sets_what_was_noted(threads, calls):
    blas, state = Blas(threads), ThreadState.on_stack()
    with replaced(blas_get_threads=blas.get, blas_set_threads=blas.set):
        for _ in range(3):
            enter(state)
            assert blas.threads == 1
        for _ in range(2):
            leave(state)
            assert blas.threads == 1
        leave(state)
    assert (blas.threads, blas.calls) == (threads, calls)
    assert state.inside.load() == 0


def test_one_that_comes_while_the_last_leaves_notes_nothing():
    """It finds 1, since the other has not set the number yet: then that one's number stays."""
    blas, state = Blas(4), ThreadState.on_stack()

    def set_late(count: int) -> None:
        if count > 1:
            enter(state)
        blas.set(count)

    with replaced(blas_get_threads=blas.get, blas_set_threads=set_late):
        enter(state)
        leave(state)
        assert (blas.threads, state.noted.load()) == (4, 0)
        leave(state)
    assert (blas.threads, state.inside.load()) == (4, 0)
