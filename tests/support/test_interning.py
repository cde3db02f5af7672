# SPDX-License-Identifier: Apache-2.0
"""Interned values: one object for equal ones, from all threads, and nothing kept."""

import gc
import os
import random
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from ingot.hlo.dim import Dim, evaluate, floordiv, maximum, mod
from ingot.hlo.dtype import F32
from ingot.kernel import expr as ex
from ingot.llvm.types import I8, array, struct, vector
from ingot.support import interning
from ingot.support.interning import InternTable
from ingot.support.recent import RecentTable

THREADS = 8


class Value:
    """Something that can be held weakly."""


@contextmanager
def short_switches():
    """Let threads be switched as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_threads(work):
    """Return what `work(number)` gives in each of some threads that begin together."""
    barrier, found = threading.Barrier(THREADS), [None] * THREADS

    def run(number):
        barrier.wait()
        found[number] = work(number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    with short_switches():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert None not in found
    return found


def sizes(number):
    """Return sizes over names of this number only."""
    n, m = Dim.symbol(f"n{number}"), Dim.symbol(f"m{number}")
    return [n, n + m, n * m, 2 * n + m, floordiv(n * m, 7), mod(n, 3), maximum(n, m), (n + 1) * m]


def expressions(number):
    """Return expressions over an index of this number only."""
    at = ex.index(Dim.symbol(f"@{number}"))
    value = ex.load(number, Dim.symbol(f"@{number}"), F32)
    both = [ex.make("add", F32, (value, value)), ex.make("multiply", F32, (value, value))]
    return [at, value, *both, ex.make("add", F32, tuple(both))]


def types(number):
    """Return types with this number of elements."""
    made = array(I8, 1000 + number)
    return [made, vector(I8, 1000 + number), struct(made, I8)]


@pytest.mark.parametrize("make", [sizes, expressions, types])
def test_equal_values_are_one_object_in_all_threads(make):
    found = in_threads(lambda _: [make(number) for number in range(60)])
    for row in zip(*found, strict=True):
        for same in zip(*row, strict=True):
            assert len(set(map(id, same))) == 1


_IN_THREADS = """
import importlib.util, random, sys, threading
spec = importlib.util.spec_from_file_location("interning", sys.argv[1])
interning = sys.modules["interning"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(interning)
class Value: pass
table, wrong = interning.InternTable(), []
barrier = threading.Barrier(8)
def work(number):
    rng = random.Random(number)
    barrier.wait()
    for _ in range(20_000):
        key = rng.randrange(3)
        mine = table.find(key) or table.keep(key, Value())
        if (table.find(key) or table.keep(key, Value())) is not mine:
            wrong.append(key)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(wrong))
"""


@pytest.mark.parametrize("python", [sys.executable, "python3.13t", "python3.14t"])
def test_threads_of_other_builds_get_one_object(python):
    """Free-threaded builds too, where there is one; a table needs the standard library only."""
    found = shutil.which(python)
    if found is None:
        pytest.skip(f"there is no {python}")
    command = [found, "-c", _IN_THREADS, interning.__file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


def test_a_value_that_dies_while_others_look_for_it_is_never_two():
    table, wrong = InternTable[int, Value](), []

    def work(number):
        rng = random.Random(number)
        for _ in range(3000):
            key = rng.randrange(3)
            mine = table.find(key) or table.keep(key, Value())
            for _ in range(rng.randrange(3)):
                if (table.find(key) or table.keep(key, Value())) is not mine:
                    wrong.append(key)
        return True

    in_threads(work)
    assert wrong == []
    gc.collect()
    assert len(table) == 0


@pytest.mark.parametrize("make", [sizes, expressions])
def test_what_nobody_holds_is_gone(make):
    gc.collect()
    from ingot.hlo import dim

    def count():
        for memo in (dim._sum, dim._product, Dim.symbol, ex.walk):
            memo.cache_clear()
        gc.collect()
        return len(dim._dims) + len(ex._exprs)

    before = count()
    held = [make(number) for number in range(5000, 5200)]
    assert count() >= before + 1000
    del held
    assert count() <= before + 10


def test_a_tall_expression_dies_without_recursion():
    value = ex.argument(0, F32)
    for number in range(20_000):
        value = ex.make("add", F32, (value, ex.argument(number % 3, F32)))
    del value
    gc.collect()
    assert ex.make("add", F32, (ex.argument(1, F32), ex.argument(2, F32))).height == 2


def test_sizes_are_what_they_were_after_others_died():
    n = Dim.symbol("n")
    for number in range(300):
        del number
        assert (n + 1) * 4 is 4 * n + 4
        assert evaluate((n + 1) * 4, {"n": 5}) == 24
    assert isinstance(n, Dim)


def test_values_die_quietly_after_the_names_of_the_module(monkeypatch):
    said, table = [], InternTable[int, Value]()
    held = table.keep(1, Value())
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    for name in ("_remove_dead", "_Reference", "weakref"):
        monkeypatch.setattr(interning, name, None)
    del held
    assert said == []
    assert len(table) == 0


def test_a_recent_table_forgets_the_longest_unused():
    table = RecentTable[int, Value](most=10)
    for number in range(5):
        table.keep(number, Value(), 2)
    assert table.find(0) is not None
    table.keep(5, Value(), 2)
    assert [number for number in range(6) if table.find(number)] == [0, 2, 3, 4, 5]
    table.keep(6, Value(), 100)
    assert [number for number in range(7) if table.find(number)] == [6]
    table.clear()
    assert len(table) == 0


def test_a_recent_table_gives_all_threads_the_same_value():
    table = RecentTable[int, Value](most=4)
    held = in_threads(lambda _: [table.keep(number, Value()) for number in range(200)])
    alive = in_threads(lambda _: [table.find(number) for number in range(200)])
    assert alive == held
    for row in zip(*held, strict=True):
        assert len(set(map(id, row))) == 1


def test_a_child_can_use_a_table_that_a_thread_was_changing():
    table, stop = RecentTable[int, Value](most=4), threading.Event()

    def change():
        while not stop.is_set():
            table.keep(random.randrange(9), Value())

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            child = os.fork()
            if not child:
                table.keep(1, Value())
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
