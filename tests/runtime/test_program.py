# SPDX-License-Identifier: Apache-2.0
"""Calling programs: results, ownership, donation, errors, the GIL, threads."""

import ctypes
import gc
import pickle
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from tests.runtime import programs

from ingot.artifact.abi import OutputInfo, ParamInfo, ProgramInfo
from ingot.runtime.native import allocator_statistics, native_runtime, num_threads, set_num_threads
from ingot.runtime.programs import program as program_module
from ingot.support.diagnostics import ExecutionError, ResourceError

pytestmark = pytest.mark.fast_share(4)


@pytest.fixture(scope="module")
def pair():
    return programs.link(*programs.add_and_multiply())


@pytest.fixture(scope="module")
def scale():
    info, module = programs.scale_in_place()
    return programs.link(info, module, constants=np.float32(3).tobytes())


def vector(count, start=0):
    return np.arange(start, start + count, dtype=np.float32)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 100_000])
def test_one_program_for_all_sizes_and_thread_counts(pair, threads, count):
    before = num_threads()
    set_num_threads(threads)
    try:
        x, y = vector(count), vector(count, 5)
        total, product = pair(x, y)
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(product, x * y)


def test_outputs_are_plain_aligned_arrays_of_their_own(pair):
    total, product = pair(vector(100), vector(100))
    for array in (total, product):
        assert type(array) is np.ndarray
        assert array.dtype is np.dtype("float32")
        assert array.ctypes.data % 64 == 0
        assert array.base is None
        assert array.flags.owndata
        assert array.flags.writeable
        assert array.flags.c_contiguous
    assert not np.shares_memory(total, product)


def test_one_output_is_not_a_tuple_and_none_is_an_empty_one(scale):
    assert scale(np.ones((2, 3), np.float32)).shape == (2, 3)
    assert programs.link(*programs.arena_only())(np.zeros((5, 0), np.uint8)) == ()


def test_memory_goes_back_when_the_array_dies(pair):
    before = allocator_statistics()
    total, product = pair(vector(1000), vector(1000))
    during = allocator_statistics()
    assert during.bytes_in_use - before.bytes_in_use >= 8000
    view = total[10:]
    del total, product
    assert allocator_statistics().bytes_in_use > before.bytes_in_use
    del view
    assert allocator_statistics().bytes_in_use == before.bytes_in_use


def test_an_output_can_be_resized_and_pickled(pair):
    before = allocator_statistics().bytes_in_use
    total, _ = pair(vector(100), vector(100))
    total.resize(5000, refcheck=False)
    np.testing.assert_array_equal(total[:100], 2 * vector(100))
    copied = pickle.loads(pickle.dumps(total))
    np.testing.assert_array_equal(copied, total)
    del total, _
    assert allocator_statistics().bytes_in_use == before


def test_no_reference_is_lost_or_kept(pair, scale):
    x, y, z = vector(50), vector(50), np.ones((2, 3), np.float32)
    objects = (x, y, z, x.dtype, np.ndarray, pair.call, pair._record)
    for _ in range(10):
        pair(x, y)
    gc.collect()  # what other tests left, arrays of this element type too, is not counted
    counts = [sys.getrefcount(item) for item in objects]
    blocks = sys.getallocatedblocks()
    for _ in range(2000):
        pair.call(x, y)
        scale.call(z)
        with pytest.raises(ExecutionError):
            scale.call(-z)
    assert [sys.getrefcount(item) for item in objects] == counts
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 500


def test_failing_calls_keep_no_memory(pair, scale):
    before = allocator_statistics().bytes_in_use
    for _ in range(10):
        with pytest.raises(ExecutionError, match="the first element is negative"):
            scale(np.full((2, 3), -1, np.float32))
        with pytest.raises(ExecutionError, match="x and y must have one size"):
            pair(vector(3), vector(4))
    assert allocator_statistics().bytes_in_use == before


def test_the_call_keeps_code_and_constants_alive():
    info, module = programs.scale_in_place()
    program = programs.link(info, module, constants=np.float32(5).tobytes())
    call, record = program.call, weakref.ref(program._record)
    del program
    gc.collect()
    np.testing.assert_array_equal(call(np.ones((2, 3), np.float32)), np.full((2, 3), 5))
    del call
    gc.collect()
    assert record() is None


def test_donation_reuses_the_argument(scale):
    state = np.ones((2, 3), np.float32)
    address = state.ctypes.data
    for step in range(1, 4):
        state = scale(state, donate=[0])
        np.testing.assert_array_equal(state, np.full((2, 3), 3.0**step))
        assert state.ctypes.data == address
    kept = scale(state)
    assert kept.ctypes.data != address


def test_donation_of_read_only_or_other_arguments_copies(scale, pair):
    state = np.ones((2, 3), np.float32)
    state.flags.writeable = False
    assert not np.shares_memory(scale(state, donate=[0]), state)
    x = vector(10)
    assert not any(np.shares_memory(x, item) for item in pair(x, x, donate=[0, 1]))


def test_new_outputs_beside_donated_ones_come_from_the_allocator(pair):
    before = allocator_statistics()
    total, product = pair(vector(1000), vector(1000), donate=[0])
    assert total.ctypes.data % 64 == 0
    assert allocator_statistics().bytes_in_use - before.bytes_in_use >= 8000
    del total, product
    assert allocator_statistics().bytes_in_use == before.bytes_in_use
    with pytest.raises(ResourceError, match="INGOT0401"):
        programs.link(*programs.small_and_large())(np.zeros((1 << 45, 0), np.uint8), donate=[0])


def test_errors_name_program_reason_and_shapes(pair, scale):
    with pytest.raises(ExecutionError, match=r"(?s)INGOT0504.*'pair'.*f32\[3\], f32\[4\]"):
        pair.call(vector(3), vector(4))
    with pytest.raises(ExecutionError, match=r"(?s)INGOT0505.*'scale'.*f32\[2,3\]"):
        scale.call(np.full((2, 3), -1, np.float32))
    with pytest.raises(ExecutionError, match=r"(?s)INGOT0501.*takes 2 arguments, but 1 was given"):
        pair.call(vector(3))
    with pytest.raises(TypeError, match="keyword"):
        pair.call(x=vector(3))


def test_out_of_memory_is_a_resource_error():
    greedy = programs.link(*programs.arena_only())
    before = allocator_statistics()
    with pytest.raises(ResourceError, match=r"(?s)INGOT0401.*'greedy'.*u8\[\d+,0\]"):
        greedy.call(np.zeros((1 << 45, 0), np.uint8))
    assert allocator_statistics().bytes_in_use == before.bytes_in_use


def test_out_of_memory_for_an_output_gives_back_the_others():
    program = programs.link(*programs.small_and_large())
    assert [item.shape for item in program.call(np.zeros((9, 0), np.uint8))] == [(4,), (9,)]
    before = allocator_statistics()
    with pytest.raises(ResourceError, match="INGOT0401"):
        program.call(np.zeros((1 << 45, 0), np.uint8))
    after = allocator_statistics()
    assert after.bytes_in_use == before.bytes_in_use
    assert after.allocations - before.allocations == after.frees - before.frees == 1


def test_callers_from_many_threads(pair):
    wrong = []

    def caller(seed):
        x, y = vector(3000, seed), vector(3000)
        for _ in range(100):
            total, product = pair.call(x, y)
            if not ((total == x + y).all() and (product == x * y).all()):
                wrong.append(seed)

    before = allocator_statistics().bytes_in_use
    callers = [threading.Thread(target=caller, args=(seed,)) for seed in range(4)]
    for item in callers:
        item.start()
    for item in callers:
        item.join()
    assert wrong == []
    assert allocator_statistics().bytes_in_use == before


@pytest.mark.parametrize(("threshold", "free"), [(0, True), (1 << 40, False)])
def test_the_gil_is_free_during_calls_of_many_bytes(threshold, free):
    """The program waits for Python code of another thread, which needs the GIL, or gives up."""
    info, module = programs.wait_for_flag()
    program = programs.link(info, module, release_gil_bytes=threshold)
    flag = np.zeros(2, np.int64)

    def raise_flag():
        while flag[1] == 0:
            time.sleep(0)
        flag[0] = 1

    other = threading.Thread(target=raise_flag)
    other.start()
    seen = program.call(flag)
    other.join()
    assert bool(seen) is free


def test_native_callers_use_the_record(pair):
    runtime = native_runtime()
    call = runtime.function("ingot_call", ctypes.c_int32, *[ctypes.c_void_p] * 4)
    x, y = vector(10), vector(10, 3)
    outputs = np.empty(10, np.float32), np.empty(10, np.float32)
    dims = (ctypes.c_int64 * 1)(10)

    def pointers(*arrays):
        return (ctypes.c_void_p * len(arrays))(*[item.ctypes.data for item in arrays])

    in_dims = (ctypes.c_void_p * 2)(*[ctypes.addressof(dims)] * 2)
    address = pair.record_address
    assert call(address, pointers(x, y), in_dims, pointers(*outputs)) == 0
    np.testing.assert_array_equal(outputs[0], x + y)
    prepare = runtime.function("ingot_prepare", ctypes.c_int32, *[ctypes.c_void_p] * 3)
    sizes = np.full(pair.info.num_sizes, -1, np.int64)
    assert prepare(address, in_dims, sizes.ctypes.data) == 0
    assert sizes.tolist() == [0, 10, 40, 40, 10, 10]
    other = (ctypes.c_int64 * 1)(11)
    in_dims[1] = ctypes.addressof(other)
    assert prepare(address, in_dims, sizes.ctypes.data) == -2
    assert call(address, pointers(x, y), in_dims, pointers(*outputs)) == -2


def test_native_callers_see_run_errors(scale):
    runtime = native_runtime()
    execute = runtime.function("ingot_execute", ctypes.c_int32, *[ctypes.c_void_p] * 4)
    x, out = np.full((2, 3), -1, np.float32), np.zeros((2, 3), np.float32)
    sizes = np.array([24, 24, 2, 3])
    inputs, outputs = (ctypes.c_void_p(item.ctypes.data) for item in (x, out))
    args = (scale.record_address, ctypes.byref(inputs), ctypes.byref(outputs), sizes.ctypes.data)
    assert execute(*args) == 1
    x[:] = 2
    assert execute(*args) == 0
    np.testing.assert_array_equal(out, 3 * x)


def test_output_shapes_without_running(pair):
    assert pair.output_shapes(vector(7), vector(7)) == ((7,), (7,))


def test_constants_are_aligned():
    info, module = programs.scale_in_place()
    memory = np.zeros(200, np.uint8)
    start = -memory.ctypes.data % 64 + 4
    memory[start : start + 4] = np.frombuffer(np.float32(7).tobytes(), np.uint8)
    program = programs.link(info, module, constants=memory[start : start + 4])
    assert (program(np.ones((2, 3), np.float32)) == 7).all()


def test_without_the_fast_call_everything_works_and_says_so(monkeypatch):
    calling = program_module._calling
    monkeypatch.setattr(program_module, "layout_problems", lambda: ("array dims",))
    calling.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match=r"a few microseconds slower \(array dims\)"):
            program = programs.link(*programs.add_and_multiply())
        total, product = program.call(vector(300), list(range(300)))
        np.testing.assert_array_equal(total, 2 * vector(300))
        np.testing.assert_array_equal(product, vector(300) ** 2)
        assert total.ctypes.data % 64 == 0
        with pytest.raises(ExecutionError, match="INGOT0504"):
            program.call(vector(3), vector(4))
    finally:
        calling.cache_clear()


def test_a_program_says_what_it_is(pair):
    assert repr(pair) == "Program('pair', 2 parameters, 2 outputs)"
    info = ProgramInfo("p", (ParamInfo("f32", ()),), (OutputInfo("f32", ()),))
    assert info.num_sizes == 3 - 1


def test_print_the_overhead_of_a_call(pair):
    x = vector(16)
    best = min(_per_call(pair.call, x) for _ in range(5))
    print(f"\ncall with 2 arguments and 2 new outputs: {best * 1e9:.0f} ns")
    assert best > 0


def _per_call(call, x, count=3000):
    start = time.perf_counter()
    for _ in range(count):
        call(x, x)
    return (time.perf_counter() - start) / count
