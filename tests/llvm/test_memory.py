# SPDX-License-Identifier: Apache-2.0
"""Loads, stores, masks, gathers and atomics."""

import ctypes

import numpy as np
import pytest

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec, host_levels
from ingot.llvm.types import F32, I1, I8, I16, I32, I64, PTR, VOID, Type, struct, vector
from ingot.support.diagnostics import InternalError

V = vector(F32, 16)


def run(emit, *arrays: np.ndarray, level: str | None = None) -> None:
    target = TargetSpec.host(level)
    module = ModuleBuilder("test", vector_bits=target.vector_bits)
    f = module.function("f", VOID, [(f"p{i}", PTR) for i in range(len(arrays))])
    emit(f, *f.params)
    f.ret()
    library = link_object([compile_object(module.text(), target)])
    function = library.function("f", None, *[ctypes.c_void_p] * len(arrays))
    function(*[item.ctypes.data for item in arrays])


def test_a_vector_needs_only_its_elements_alignment() -> None:
    x = np.arange(18, dtype=np.float32)
    out = np.zeros(17, np.float32)
    run(lambda f, p, q: f.store(f.load(V, p), q), x[1:], out[1:])
    np.testing.assert_array_equal(out[1:], x[1:17])


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_masked_access_leaves_the_rest_alone(count: int, level: str) -> None:
    x, out = np.arange(1, 17, dtype=np.float32), np.full(16, -1, np.float32)
    seen = np.zeros(16, np.float32)

    def emit(f, p, q, r):
        lanes = f.const(vector(I32, 16), range(16))
        mask = f.icmp("slt", lanes, f.const(vector(I32, 16), count))
        loaded = f.masked_load(V, p, mask)
        f.masked_store(loaded, q, mask)
        f.store(loaded, r)

    run(emit, x, out, seen, level=level)
    np.testing.assert_array_equal(out, [*x[:count], *[-1] * (16 - count)])
    np.testing.assert_array_equal(seen, [*x[:count], *[0] * (16 - count)])


def test_a_masked_load_of_no_lane_is_left_out() -> None:
    # LLVM 22 reads all of such a load when nobody looks at what it gives.
    lanes = vector(I64, 4)

    def emit(f, p):
        place = f.add(f.const(lanes, 0), f.const(lanes, (0, 1, 1, 2)))
        on = f.icmp("eq", f.load(I64, p), f.const(I64, 1))
        mask = f.and_(f.splat(on, 4), f.icmp("slt", place, f.const(lanes, 1)))
        assert f.lanes_off(mask) == (False, True, True, True)
        wide = vector(F32, 2)
        assert f.masked_load(wide, p, f.slice_lanes(mask, 2, 2)).text[0] != "%"
        f.store(f.masked_load(wide, p, f.slice_lanes(mask, 0, 2)), p)

    x = np.array([1], np.int64)
    run(emit, x)
    np.testing.assert_array_equal(x, [1])


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize(("narrow", "wide"), [(I8, I32), (I16, I32), (I32, I64)])
def test_a_masked_store_of_one_truncated_lane_writes_that_lane_alone(
    narrow: Type, wide: Type, level: str
) -> None:
    # LLVM 22 stores the wide integer when it knows that the mask has one lane.
    x = np.arange(1, 9, dtype=f"i{wide.bytes}")
    out = np.full(8, -1, f"i{narrow.bytes}")

    def emit(f, p, q):
        value = f.trunc(f.load(vector(wide, 8), p), vector(narrow, 8))
        f.masked_store(value, q, f.const(vector(I1, 8), [lane == 2 for lane in range(8)]))

    run(emit, x, out, level=level)
    np.testing.assert_array_equal(out, [-1, -1, 3, -1, -1, -1, -1, -1])


@pytest.mark.parametrize("level", host_levels())
def test_gather_and_scatter(level: str) -> None:
    x = np.arange(100, dtype=np.float32)
    index = np.random.default_rng(0).permutation(100)[:16].astype(np.int64)
    out = np.zeros(100, np.float32)

    def emit(f, p, i, q):
        where = f.load(vector(I64, 16), i)
        loaded = f.gather(V, f.gep(p, where, F32))
        f.scatter(f.add(loaded, f.const(V, 1)), f.gep(q, where, F32))

    run(emit, x, index, out, level=level)
    wanted = np.zeros(100, np.float32)
    wanted[index] = x[index] + 1
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("bits", [0, 0b1, 0b1010_0000_0110_0001, 0xFFFF])
def test_masked_scatter_leaves_the_rest_alone(bits: int, level: str) -> None:
    mask = np.array([bits >> lane & 1 for lane in range(16)], bool)
    x, out = np.arange(1, 17, dtype=np.float32), np.zeros(32, np.float32)
    index = np.random.default_rng(0).permutation(32)[:16].astype(np.int64)
    # Lanes that are off may point anywhere.
    index[~mask] = -(2**50)

    def emit(f, p, i, m, q):
        on = f.icmp("ne", f.load(vector(I8, 16), m), f.zero(vector(I8, 16)))
        where = f.gep(q, f.load(vector(I64, 16), i), F32, inbounds=False)
        f.scatter(f.load(V, p), where, on)

    run(emit, x, index, mask, out, level=level)
    wanted = np.zeros(32, np.float32)
    wanted[index[mask]] = x[mask]
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("bits", "is_masked"), [(256, False), (512, True)])
def test_where_no_instruction_scatters_lanes_that_are_off_go_to_the_stack(
    bits: int, is_masked: bool
) -> None:
    module = ModuleBuilder("m", vector_bits=bits)
    f = module.function("f", VOID, [("p", PTR), ("x", I1)])
    p, x = f.params
    f.scatter(f.zero(V), f.splat(p, 16), f.splat(x, 16))
    f.ret()
    assert ("alloca" in module.text()) == (not is_masked)


def test_masked_gather_takes_the_other_lanes_from_elsewhere() -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)

    def emit(f, p, q):
        even = f.const(vector(I1, 16), [lane % 2 == 0 for lane in range(16)])
        where = f.gep(p, f.const(vector(I64, 16), range(16)), F32)
        f.store(f.gather(V, where, even, f.const(V, -5)), q)

    run(emit, x, out)
    np.testing.assert_array_equal(out, np.where(np.arange(16) % 2 == 0, x, -5))


def test_parts_whose_lanes_are_all_off_are_not_read() -> None:
    """LLVM 22 reads the whole part, without its mask, where nobody looks at what it gives."""
    module = ModuleBuilder("m", vector_bits=256)
    wide = vector(I64, 16)
    f = module.function("f", VOID, [("p", PTR), ("x", I1), ("q", PTR)])
    p, x, q = f.params
    some = f.and_(f.splat(x, 16), f.const(vector(I1, 16), [lane < 7 for lane in range(16)]))
    backwards = f.shuffle(some, f.zero(some.type), range(15, -1, -1))
    for mask in (some, backwards, f.or_(some, some)):
        f.masked_store(f.masked_load(wide, p, mask), q, mask)
    f.ret()
    text = module.text()
    assert text.count("call <4 x i64> @llvm.masked.load") == 3 * 2
    assert text.count("call void @llvm.masked.store") == 3 * 2


def test_non_temporal_stores_reach_memory() -> None:
    out = np.zeros(32, np.float32)
    at = (-out.ctypes.data % 64) // 4
    run(lambda f, p: f.store(f.const(V, 3), p, 64, nontemporal=True), out[at:])
    np.testing.assert_array_equal(out[at : at + 16], 3)


def test_stack_slots_stand_in_the_entry_block() -> None:
    out = np.zeros(1, np.int64)

    def emit(f, p):
        def body(i):
            slot = f.alloca(I64, 4)
            f.store(i, f.gep(slot, 2, I64))
            f.store(f.load(I64, f.gep(slot, 2, I64)), p)

        f.for_range(f.load(I64, p), body)
        f.store(f.const(I64, 9), p)
        f.for_range(f.load(I64, p), body)

    run(emit, out)
    assert out[0] == 8


def test_atomics() -> None:
    cell, seen = np.array([5], np.int64), np.zeros(5, np.int64)

    def emit(f, p, q):
        f.store(f.atomicrmw("add", p, f.const(I64, 3)), q)
        held, done = f.cmpxchg(p, f.const(I64, 8), f.const(I64, 100))
        f.store(held, f.gep(q, 1, I64))
        f.store(f.zext(done, I64), f.gep(q, 2, I64))
        held, done = f.cmpxchg(p, f.const(I64, 8), f.const(I64, 200))
        f.store(f.zext(done, I64), f.gep(q, 3, I64))
        f.store(f.atomic_load(I64, p), f.gep(q, 4, I64))
        f.atomic_store(f.const(I64, 77), p)

    run(emit, cell, seen)
    assert seen.tolist() == [5, 8, 1, 0, 100]
    assert cell[0] == 77


def test_bytes_of_a_global_survive() -> None:
    data = bytes(range(256))
    out = np.zeros(256, np.uint8)

    def emit(f, p):
        source = f.owner.global_bytes("table", data)
        f.memcpy(p, source, 256)

    run(emit, out)
    assert out.tobytes() == data


def test_memset_and_static_gep() -> None:
    out = np.zeros(8, np.uint8)
    run(lambda f, p: f.memset(f.gep(p, 2), 0xAB, 3), out)
    assert out.tolist() == [0, 0, 0xAB, 0xAB, 0xAB, 0, 0, 0]


def test_struct_values() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("p", PTR)])
    pair = f.load(struct(I8, I64), f.params[0], 8)
    assert f.extract_value(pair, 1).type is I64


def test_predicates_are_not_loaded_or_stored() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("p", PTR)])
    with pytest.raises(InternalError, match="i8"):
        f.load(I1, f.params[0])
    with pytest.raises(InternalError, match="i8"):
        f.store(f.const(vector(I1, 8), True), f.params[0])
