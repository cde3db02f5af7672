# SPDX-License-Identifier: Apache-2.0
"""The fork-join pool: every chunk once, for any thread count, nested, concurrent and after fork."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ingot.llvm.builder import ModuleBuilder, Value
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.runtime.native import default_num_threads, native_runtime, num_threads, set_num_threads
from ingot.runtime.records import RUNTIME
from ingot.runtime.threading.pool import MAX_TICKETS
from ingot.support.diagnostics import ArgumentError
from ingot.support.flags import NUM_THREADS, override

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def threads():
    before = num_threads()
    yield set_num_threads
    set_num_threads(before)


@pytest.fixture(scope="module")
def kernels():
    """count: counts[chunk] += 1. nested: the same in a region of its own.

    meet: waits until two chunks run; counts[1 + chunk] = how long.
    stack: counts[chunk] = an address of the thread's stack, after a while.
    """
    module = ModuleBuilder("kernels")
    f = module.function("count", VOID, [("env", PTR), ("chunk", I64)])
    counts = f.load(PTR, f.params[0])
    f.atomicrmw("add", f.gep(counts, f.params[1], I64), f.const(I64, 1), "monotonic")
    f.ret()
    count = f.reference
    f = module.function("nested", VOID, [("env", PTR), ("chunk", I64)])
    env, chunk = f.params
    counts, rt = f.load(PTR, env), f.load(PTR, f.gep(env, 1, PTR))
    inner = f.load(I64, f.gep(env, 2, I64))
    own = f.alloca(PTR)
    f.store(f.gep(counts, f.mul(chunk, inner), I64), own)
    args = [f.load(PTR, rt), Value(PTR, count.text), own, inner]
    f.call_indirect(f.load(PTR, f.gep(rt, 1, PTR)), VOID, [PTR, PTR, PTR, I64], args)
    f.ret()
    f = module.function("meet", VOID, [("env", PTR), ("chunk", I64)])
    counts = f.load(PTR, f.params[0])
    f.atomicrmw("add", counts, f.const(I64, 1), "seq_cst")

    def alone(values):
        arrived = f.atomic_load(I64, counts, "seq_cst")
        waiting = f.icmp("slt", arrived, f.const(I64, 2))
        return f.and_(waiting, f.icmp("slt", values[0], f.const(I64, 1 << 30)))

    (tries,) = f.while_([f.const(I64, 0)], alone, lambda v: [f.add(v[0], f.const(I64, 1))])
    f.store(tries, f.gep(counts, f.add(f.params[1], f.const(I64, 1)), I64))
    f.ret()
    f = module.function("stack", VOID, [("env", PTR), ("chunk", I64)])
    counts = f.load(PTR, f.params[0])
    where = f.ptrtoint(f.alloca(I64), I64)
    f.store(where, f.gep(counts, f.params[1], I64))
    for _ in range(200):
        f.call(module.declare("sched_yield", I32, []), [])
    f.ret()
    return link_object([compile_object(module.text(), TargetSpec.host())])


def run(kernels, name, chunks, inner=1):
    runtime = native_runtime()
    counts = np.zeros(max(1, chunks * inner), np.int64)
    env = (ctypes.c_int64 * 3)(counts.ctypes.data, runtime.record, inner)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    parallel = runtime.function("ingot_parallel", None, *types)
    parallel(RUNTIME.read(runtime.record, "pool"), kernels.address(name), env, chunks)
    return counts[: chunks * inner]


@pytest.mark.parametrize("count", [1, 2, 4, 7])
@pytest.mark.parametrize("chunks", [0, 1, 2, 3, 100, MAX_TICKETS, MAX_TICKETS + 1, 200_001])
def test_every_chunk_runs_once(kernels, threads, count, chunks):
    threads(count)
    assert (run(kernels, "count", chunks) == 1).all()


def test_many_regions_in_a_row_with_changing_thread_counts(kernels, threads):
    for step in range(600):
        threads(1 + step % 4)
        assert (run(kernels, "count", step % 17) == 1).all()


def test_regions_after_workers_went_to_sleep(kernels, threads):
    threads(3)
    for _ in range(5):
        time.sleep(0.005)
        assert (run(kernels, "count", 50) == 1).all()


def test_workers_are_started_only_when_needed(kernels, threads):
    code = (
        "from ingot.runtime.native import native_runtime as r; r().set_num_threads(3);"
        "import os; print(r().num_workers, len(os.listdir('/proc/self/task')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert result.stdout.split() == ["0", "1"]
    threads(5)
    run(kernels, "count", 10)
    assert native_runtime().num_workers >= 4


@pytest.mark.parametrize("count", [1, 2, 4])
def test_nested_regions_run_in_place(kernels, threads, count):
    threads(count)
    assert (run(kernels, "nested", 40, inner=30) == 1).all()


def test_two_threads_take_the_two_ends(kernels, threads):
    threads(2)
    for _ in range(10):
        stacks = run(kernels, "stack", 64)
        assert np.count_nonzero(np.diff(stacks)) <= 1


def test_two_chunks_run_at_the_same_time(kernels, threads):
    threads(2)
    tries = run(kernels, "meet", 2, inner=2)[1:3]
    assert (tries < 1 << 30).all()


def test_concurrent_callers(kernels, threads):
    threads(3)
    wrong = []

    def caller():
        for _ in range(100):
            if not (run(kernels, "count", 64) == 1).all():
                wrong.append(1)

    callers = [threading.Thread(target=caller) for _ in range(4)]
    for item in callers:
        item.start()
    for item in callers:
        item.join()
    assert wrong == []


FORK = """
import os, numpy as np
from ingot.runtime.native import native_runtime
from tests.runtime import programs
runtime = native_runtime()
runtime.set_num_threads(3)
pair = programs.link(*programs.add_and_multiply())
x = np.ones(10_000, np.float32)
def works():
    return all((pair.call(x, x)[0] == 2).all() for _ in range(50))
assert works() and runtime.num_workers == 2
child = os.fork()
if child == 0:
    fresh = runtime.num_workers == 0
    os._exit(0 if fresh and works() and runtime.num_workers == 2 else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status, works(), runtime.num_workers)
"""


def test_a_forked_child_makes_its_own_workers():
    # In a process of its own, because forking pytest would fork the threads of every framework.
    command = [sys.executable, "-c", FORK]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split() == ["0", "True", "2"]


FORK_WHILE_A_REGION_RUNS = """
import ctypes, os, signal, threading
import numpy as np
from ingot.runtime.native import native_runtime, set_num_threads
from ingot.runtime.records import RUNTIME
set_num_threads(3)
runtime = native_runtime()
pointer = ctypes.c_void_p
parallel = runtime.function("ingot_parallel", None, pointer, pointer, pointer, ctypes.c_int64)
pool = RUNTIME.read(runtime.record, "pool")
chunk_type = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64)
begun, goes_on, parent = threading.Event(), threading.Event(), os.getpid()
slow_done, strangers = [], []

@chunk_type
def slow(env, chunk):
    if os.getpid() != parent:
        strangers.append(chunk)
    begun.set()
    goes_on.wait()
    slow_done.append(chunk)

def region(size):
    counts = [0] * size
    @chunk_type
    def count(env, chunk):
        counts[chunk] += 1
    parallel(pool, count, None, size)
    return counts == [1] * size

def works():
    return all([region(2 + step % 7) for step in range(200)])

thread = threading.Thread(target=lambda: parallel(pool, slow, None, 100))
thread.start()
begun.wait()
statuses = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        right = works()
        os._exit(0 if right and not strangers else 1)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
goes_on.set()
thread.join()
print(statuses, sorted(slow_done) == [*range(100)], works())
"""


def test_a_fork_while_other_threads_share_work():
    # What is left of their work is none of the child's.
    command = [sys.executable, "-c", FORK_WHILE_A_REGION_RUNS]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.split("\n")[0] == "[0, 0, 0, 0, 0] True True"


def test_thread_count_comes_from_the_switch_or_the_affinity():
    with override(NUM_THREADS, 5):
        assert default_num_threads() == 5
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    try:
        assert default_num_threads() == 1
    finally:
        os.sched_setaffinity(0, affinity)


def test_no_thread_at_all_is_refused():
    with pytest.raises(ArgumentError, match="from 1 to 4096, not 0"):
        set_num_threads(0)
