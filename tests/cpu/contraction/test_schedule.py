# SPDX-License-Identifier: Apache-2.0
"""What the schedule of contractions promises: blocks that fit, units enough to share."""

import itertools

import pytest
from tests.cpu.contraction.test_contraction import product

from ingot.hlo.dim import evaluate
from ingot.kernel.contraction.build import build_contraction_kernel
from ingot.kernel.contraction.plan import plan_contraction
from ingot.kernel.contraction.schedule import PACK_BYTES, schedule_contraction
from ingot.kernel.contraction.unit_blocks import TILE_BYTES
from ingot.llvm.machine_model import Vectors

WIDE, NARROW = Vectors(512, 32), Vectors(128, 16)
EXTENTS = [1, 10, 64, 129, 1000, 4096, 50257]


def schedule(dims, transposed=(False, False), vectors=WIDE, name="f32"):
    return schedule_contraction(build_contraction_kernel(product(dims, transposed, name)), vectors)


def plan(dims, vectors=WIDE, name="f32"):
    kernel = build_contraction_kernel(product(dims, name=name))
    return plan_contraction(kernel, schedule_contraction(kernel, vectors), vectors)


@pytest.mark.parametrize("vectors", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", ["f32", "s32"])
def test_register_blocks_cover_rows_and_columns_once(name, vectors):
    shared = set[bool]()
    for m, n in itertools.product(EXTENTS, EXTENTS):
        made = plan((None, m, n, 64), vectors, name)
        rows, columns = (n, m) if made.schedule.swapped else (m, n)
        whole, *left = made.row_blocks
        assert rows % whole[0].rows == sum(blocks[0].rows for blocks in left)
        for blocks in made.row_blocks:
            assert columns % blocks[0].columns == sum(block.columns for block in blocks[1:])
            shared |= {block.is_shared for block in blocks}
    # The library has micro-kernels of floats, of vectors that are long enough.
    assert (True in shared) == (name == "f32" and vectors is WIDE)


def test_blocks_of_symbolic_rows_and_columns_are_counted_as_they_run():
    made = plan((None, "?m", "?n", 64))
    heights = [blocks[0].rows for blocks in made.row_blocks]
    assert heights[0] > 4
    assert heights[1:] == [4, 1]
    assert [blocks[1].columns for blocks in made.row_blocks] == [0, 0, 0]


def test_small_products_are_one_chunk():
    assert schedule((None, 64, 64, 64)).chunks == 1


@pytest.mark.parametrize("transposed", [(False, False), (False, True)], ids=str)
@pytest.mark.parametrize("size", [128, 256, 512, 1024, 2048])
def test_large_products_can_be_shared(size, transposed):
    assert schedule((None, size, size, size), transposed).chunks >= 4


def test_small_products_of_a_batch_share_chunks():
    made = schedule((1000, 8, 8, 8))
    assert made.units == 1000
    assert 1 < made.chunks < 100


@pytest.mark.parametrize("vectors", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("m", [1, 64, 4096])
def test_blocks_fit(m, name, vectors):
    size = 8 if name == "f64" else 4
    for n in EXTENTS:
        for k in EXTENTS:
            made = schedule((None, m, n, k), vectors=vectors, name=name)
            depth = k if made.k_block is None else made.k_block
            sums = made.rows * -(-made.columns // made.lanes)
            assert sums + made.columns // made.lanes + 1 <= vectors.registers or made.rows == 1
            assert made.n_block % made.columns == 0
            assert made.m_block % made.rows == 0
            if made.rhs in ("packed", "transposed"):
                padded = -(-depth // made.lanes) * made.lanes
                assert made.n_block * padded * size <= PACK_BYTES
            if not made.store_direct:
                height = made.m_block if k > depth else made.rows
                assert height * made.n_block * size <= TILE_BYTES * 2


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("m", [1, 5, 16])
def test_few_rows_read_a_large_rhs_once_in_long_runs(m, name):
    made = schedule((None, m, 3072, 768), name=name)
    assert made.rhs == "direct"
    assert made.m_block >= m
    # Where several register blocks read a piece, it is longer.
    assert made.k_block == (8 if m <= made.rows else 16)
    assert 2 <= made.units <= 8


@pytest.mark.parametrize(
    ("columns", "units"),
    [(384, 1), (700, 2), (1024, 2), (4096, 2), (8192, 4), (11008, 4), (32000, 8)],
)
def test_runs_of_a_row_are_long_and_shared_by_several_threads(columns, units):
    made = schedule((None, 1, columns, 1024))
    # More rows of a rhs at once where they are short and do not share cache sets.
    depth = {384: 64, 700: 32}.get(columns, 8)
    assert (made.rhs, made.k_block, made.units) == ("direct", depth, units)


@pytest.mark.parametrize(
    ("m", "columns", "depth"),
    [(4, 1000, 32), (4, 1024, 8), (4, 512, 8), (4, 500, 64), (8, 4096, 8), (8, 2000, 32)],
)
def test_pieces_of_rows_in_few_cache_sets_fit_its_ways(m, columns, depth):
    made = schedule((None, m, columns, 1024), vectors=Vectors(256, 16))
    assert (made.rhs, made.k_block) == ("direct", depth)


def test_few_rows_pack_long_pieces_of_a_large_rhs():
    made = schedule((None, 4, 3072, 768), name="bf16")
    assert made.rhs == "packed"
    assert made.k_block == 128
    assert made.n_block >= 256


@pytest.mark.parametrize(
    ("columns", "depth", "rhs"),
    [(146, 512, "direct"), (512, 512, "packed"), (128, 25088, "packed")],
)
def test_a_rhs_that_the_cache_keeps_is_read_in_place(columns, depth, rhs):
    assert schedule((None, 128, columns, depth)).rhs == rhs


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "rhs"),
    [
        (128, 512, 512, "packed"),
        (128, 512, 64, "packed"),
        (128, 140, 512, "direct"),
        (12, 512, 512, "direct"),
    ],
)
def test_fewer_registers_pack_all_rows_that_fall_into_few_cache_sets(rows, columns, depth, rhs):
    made = schedule((None, rows, columns, depth), vectors=Vectors(256, 16))
    assert made.rhs == rhs


def test_symbolic_chunks_follow_the_sizes():
    made = schedule(("?b", "?m", 768, 768))
    chunks = [evaluate(made.chunks, {"b": b, "m": m}) for b, m in [(1, 1), (1, 4096), (8, 4096)]]
    assert chunks[0] < chunks[1] < chunks[2]
    assert evaluate(made.chunks, {"b": 1, "m": 0}) == 0
