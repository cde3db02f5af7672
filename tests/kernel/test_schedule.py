# SPDX-License-Identifier: Apache-2.0
"""Schedules of loop kernels: units cover the grid, chunks the units, parts a reduced axis."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.programs import SOFTMAX, flat, fused, whole_sum

from ingot.hlo.dim import Dim, evaluate
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.schedule.loop_schedule import Effort, LoopSchedule
from ingot.kernel.schedule.piece_loops import Pieces
from ingot.kernel.schedule.splits import SplitReduction
from ingot.llvm.machine_model import Vectors

AVX512, AVX2, PLAIN = Vectors(512, 32), Vectors(256, 16), Vectors(128, 16)


def _scheduled(fused_computation, vectors=AVX512) -> tuple[LoopKernel, LoopSchedule]:
    kernel = collapse(build_loop_kernel(fused_computation))
    return kernel, schedule_loops(kernel, vectors)


def _number(value, **sizes) -> int:
    return evaluate(value, sizes)


def _check_covers(kernel: LoopKernel, schedule: LoopSchedule, **sizes: int) -> None:
    units = _number(schedule.units, **sizes)
    grain, chunks = _number(schedule.grain, **sizes), _number(schedule.chunks, **sizes)
    assert grain >= 1
    assert (chunks - 1) * grain < units <= chunks * grain or units == chunks == 0
    blocked = schedule.blocked_axes
    wanted = math.prod(
        -(-_number(axis.extent, **sizes) // schedule.block)
        if axis in blocked
        else _number(axis.extent, **sizes)
        for axis in kernel.grid
    )
    assert units == wanted


@pytest.mark.parametrize("vectors", [AVX512, AVX2, PLAIN])
@given(dims=st.lists(st.integers(0, 3000), min_size=1, max_size=3))
def test_chunks_cover_the_units(vectors: Vectors, dims: list[int]) -> None:
    _check_covers(*_scheduled(flat(*dims), vectors))


@given(size=st.integers(0, 10**7))
def test_chunks_cover_symbolic_units(size: int) -> None:
    _check_covers(*_scheduled(flat("?n", 5)), n=size)
    _check_covers(*_scheduled(fused(SOFTMAX)), n=size)


@given(size=st.integers(0, 10**8))
def test_parts_of_a_split_reduction_cover_the_axis(size: int) -> None:
    _, schedule = _scheduled(whole_sum("?n"))
    split = schedule.strategy
    assert isinstance(split, SplitReduction)
    length, count = (_number(v, n=size) for v in (split.length, split.count))
    assert 1 <= count <= 257
    assert length * count >= size
    assert (count - 1) * length < max(size, 1)


@pytest.mark.parametrize(("size", "splits"), [(1000, False), (200_000_000, True)])
def test_only_large_reductions_are_split(size: int, splits: bool) -> None:
    _, schedule = _scheduled(whole_sum(size))
    assert isinstance(schedule.strategy, SplitReduction) == splits


def _fold_of(*lines: str) -> SplitReduction:
    body = [*(f"{name} = f32[?n] parameter({at})" for at, name in enumerate("xyzw")), *lines]
    text = "\n".join((*body, "zero = f32[] constant(0)"))
    end = "ROOT r = f32[] reduce(v, zero), dimensions={0}, to_apply=add"
    _, schedule = _scheduled(fused(f"{text}\n{end}"))
    assert isinstance(schedule.strategy, SplitReduction)
    assert schedule.lanes[0] * schedule.strategy.runs <= 64
    return schedule.strategy


@pytest.mark.parametrize(
    ("lines", "runs"),
    [
        (["v = f32[?n] multiply(x, x)"], 4),
        (["v = f32[?n] multiply(x, y)"], 4),
        (["p = f32[?n] multiply(y, z)", "v = f32[?n] add(x, p)"], 4),
        (["p = f32[?n] multiply(y, z)", "q = f32[?n] add(x, w)", "v = f32[?n] add(p, q)"], 1),
        (["v = f32[?n] exponential(x)"], 1),
        (["v = f32[?n] reverse(x), dimensions={0}"], 1),
    ],
)
def test_few_arrays_are_folded_in_several_runs(lines: list[str], runs: int) -> None:
    assert _fold_of(*lines).runs == runs


@pytest.mark.parametrize("vectors", [AVX512, AVX2, PLAIN])
@pytest.mark.parametrize("size", ["?n", 1 << 24])
def test_each_run_has_the_lanes_of_a_register(vectors: Vectors, size: int | str) -> None:
    _, schedule = _scheduled(whole_sum(size), vectors)
    assert isinstance(schedule.strategy, SplitReduction)
    assert (schedule.lanes[0], schedule.strategy.runs) == (vectors.bits // 32, 4)
    _, columns = _scheduled(
        fused("""x = f32[?n,1000] parameter(0)
      zero = f32[] constant(0)
      ROOT r = f32[1000] reduce(x, zero), dimensions={0}, to_apply=add"""),
        vectors,
    )
    assert not isinstance(columns.strategy, SplitReduction) or columns.strategy.runs == 1


def test_small_kernels_are_one_chunk_and_large_ones_many() -> None:
    assert _scheduled(flat(1000))[1].chunks == 1
    assert _number(_scheduled(flat(50_000_000))[1].chunks) > 8


@pytest.mark.parametrize("vectors", [AVX512, AVX2, PLAIN])
def test_lanes_fill_registers(vectors: Vectors) -> None:
    _, schedule = _scheduled(flat(10_000), vectors)
    (lanes,) = set(schedule.lanes)
    assert lanes % vectors.lanes(32, 1) == 0


def test_rows_are_reduced_across_lanes_and_columns_along_the_grid() -> None:
    row = """p = f32[512,256] parameter(0)
      zero = f32[] constant(0)
      ROOT r = f32[512] reduce(p, zero), dimensions={1}, to_apply=add"""
    assert _scheduled(fused(row))[1].vector_axis is None
    column = row.replace("[512] reduce", "[256] reduce").replace("={1}", "={0}")
    kernel, schedule = _scheduled(fused(column))
    assert schedule.vector_axis in kernel.grid


COLUMNS = """x = f32[ROWS,COLUMNS] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[COLUMNS] reduce(x, zero), dimensions={0}, to_apply=add"""


@pytest.mark.parametrize(("columns", "along_grid"), [(2, False), (4, False), (5, True), (64, True)])
def test_a_few_columns_are_gathered_by_lanes_along_the_rows(columns: int, along_grid: bool):
    text = COLUMNS.replace("ROWS", "3000").replace("COLUMNS", str(columns))
    _, schedule = _scheduled(fused(text))
    assert (schedule.vector_axis is not None) == along_grid


@pytest.mark.parametrize(("columns", "lanes"), [(128, 128), (160, 64), (192, 64), (320, 128)])
def test_lanes_of_columns_leave_little_to_masks(columns: int, lanes: int) -> None:
    text = COLUMNS.replace("ROWS", "64").replace("COLUMNS", str(columns))
    _, schedule = _scheduled(fused(text))
    assert schedule.lanes[0] == lanes


def test_sizes_are_symbols_to_the_end() -> None:
    _, schedule = _scheduled(flat("?n"))
    assert isinstance(schedule.units, Dim)
    assert isinstance(schedule.chunks, Dim)


def test_only_streams_that_compute_little_wait_for_memory() -> None:
    million = 1 << 20
    assert _scheduled(whole_sum(17 * million))[1].effort is Effort.MEMORY_BOUND
    assert _scheduled(whole_sum(million))[1].effort is Effort.FULL
    assert _scheduled(flat(17 * million))[1].effort is Effort.FULL, "tanh is work"
    assert _scheduled(whole_sum("?n"))[1].effort is Effort.FULL


@pytest.mark.parametrize("narrow", ["bf16", "f16", "s8"])
def test_sums_of_narrow_elements_are_work(narrow: str) -> None:
    text = f"""x = {narrow}[1000,100000] parameter(0)
      wide = f32[1000,100000] convert(x)
      zero = f32[] constant(0)
      ROOT r = f32[1000] reduce(wide, zero), dimensions={{1}}, to_apply=add"""
    assert _scheduled(fused(text))[1].effort is Effort.FULL
    wide = text.replace(narrow, "f32")
    assert _scheduled(fused(wide))[1].effort is Effort.MEMORY_BOUND


def _chain(steps: int, masks: int = 0, element: str = "f32") -> str:
    """Return so many products and sums on one another, and selects by so many masks."""
    lines = ["x = f32[5000] parameter(0)", "v0 = f32[5000] add(x, x)"]
    for n in range(steps):
        lines.append(f"m{n} = f32[5000] multiply(v{n}, x)")
        lines.append(f"v{n + 1} = f32[5000] add(m{n}, x)")
    for n in range(masks):
        lines.append(f"p{n} = pred[5000] compare(v{n}, x), direction=LT")
        lines.append(f"v{steps + n + 1} = f32[5000] select(p{n}, v{steps + n}, x)")
    lines.append(f"r = f32[5000] negate(v{steps + masks})")
    return (" ".join(lines[:-1]) + " ROOT " + lines[-1]).replace("f32", element)


def _calls(steps: int) -> str:
    """Return so many functions of one another."""
    lines = [f"v{n + 1} = f32[5000] tanh(v{n})" for n in range(steps)]
    return " ".join(["v0 = f32[5000] parameter(0)", *lines[:-1], "ROOT", lines[-1]])


@pytest.mark.parametrize(
    ("text", "vectors", "is_latency_bound"),
    [
        (_chain(20), AVX512, True),
        (_chain(20, masks=4), AVX512, True),
        (_chain(20, masks=20), AVX512, False),
        (_chain(20), AVX2, False),
        (_chain(5), AVX512, False),
        (_chain(5, element="bf16"), AVX512, True),  # Each result is rounded.
        (_chain(1, element="bf16"), AVX512, False),
        (_calls(7), AVX512, True),
        (_calls(2), AVX512, False),
    ],
)
def test_long_chains_on_few_values_need_no_optimizing(
    text: str, vectors: Vectors, is_latency_bound: bool
):
    assert (_scheduled(fused(text), vectors)[1].effort is Effort.LATENCY_BOUND) is is_latency_bound


def test_functions_of_parts_of_complex_numbers_fill_registers() -> None:
    text = """z = c64[5000] parameter(0)
      x = f32[5000] real(z)
      y = f32[5000] imag(z)
      {steps}
      ROOT r = c64[5000] complex(e, y)"""
    called = text.format(steps="e = f32[5000] exponential(x)")
    plain = text.format(steps="e = f32[5000] multiply(x, y)")
    lanes = [_scheduled(fused(each))[1].lanes[0] for each in (called, plain)]
    assert lanes == [4 * 512 // 32, 4 * 512 // 64]


def _concatenation(count: int, columns: int, dimension: int) -> str:
    """Return the text of `count` computed arrays beside each other."""
    parts = "".join(
        f"x{i} = f32[24,{columns}] parameter({i})  y{i} = f32[24,{columns}] negate(x{i})  "
        for i in range(count)
    )
    rows, columns = (24 * count, columns) if dimension == 0 else (24, columns * count)
    names = ", ".join(f"y{i}" for i in range(count))
    return f"{parts}ROOT r = f32[{rows},{columns}] concatenate({names}), dimensions={{{dimension}}}"


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("count", [2, 9, 64])
def test_each_computed_part_of_a_concatenation_is_a_piece(count: int, dimension: int) -> None:
    _, schedule = _scheduled(fused(_concatenation(count, 40, dimension)))
    assert isinstance(schedule.strategy, Pieces)
    assert len(list(schedule.strategy.loops)) == count


def test_a_window_of_many_masks_is_not_cut_at_each() -> None:
    """Every piece would hold nearly all of the kernel again."""
    taps = range(1, 20)
    text = "x = f32[40] parameter(0)  z = f32[] parameter(1)  s0 = f32[40] negate(x)  "
    text += "".join(
        f"p{i} = f32[40] pad(x, z), padding={i}_-{i}  s{i} = f32[40] add(s{i - 1}, p{i})  "
        for i in taps
    )
    _, schedule = _scheduled(fused(text + "ROOT r = f32[40] negate(s19)"))
    assert not isinstance(schedule.strategy, Pieces)


def _tree(leaves: int) -> str:
    """Return a balanced tree of sums and maxima over products of three operands."""
    names, lines = ["x", "y", "z"], []
    level = []
    for leaf in range(leaves):
        sides = f"{names[leaf % 3]}, {names[(leaf + 1 + leaf // 3) % 3]}"
        lines.append(f"p{leaf} = f32[100000] multiply({sides})")
        lines.append(f"q{leaf} = f32[100000] subtract(p{leaf}, w{leaf % 4})")
        level.append(f"q{leaf}")
    depth = 0
    while len(level) > 1:
        depth += 1
        op = "add" if depth % 2 else "maximum"
        pairs = []
        for at in range(0, len(level) - 1, 2):
            name = f"t{depth}x{at}"
            lines.append(f"{name} = f32[100000] {op}({level[at]}, {level[at + 1]})")
            pairs.append(name)
        level = pairs + level[len(level) & ~1 :]
    shared = [
        line
        for at in range(4)
        for line in (
            f"s{at} = f32[] parameter({3 + at})",
            f"w{at} = f32[100000] broadcast(s{at}), dimensions={{}}",
        )
    ]
    given = [f"{name} = f32[100000] parameter({at})" for at, name in enumerate(names)]
    return "\n".join([*given, *shared, *lines[:-1], f"ROOT {lines[-1]}"])


def test_what_crowds_the_registers_has_two_of_each_value():
    few, many = (_scheduled(fused(_tree(leaves)))[1].lanes for leaves in (8, 16))
    assert few[0] == 4 * 16
    assert many[0] == 2 * 16


def test_lanes_run_along_the_axis_that_gathers_less() -> None:
    """Sums of products read a large array in order, though another one is gathered for it."""
    text = """vectors = f32[32,288] parameter(0)
        scale = f32[32,288] parameter(1)
        across = f32[288,160,32] parameter(2)
        zero = f32[] constant(0)
        scaled = f32[32,288] multiply(vectors, scale)
        rows = f32[32,160,288] broadcast(scaled), dimensions={0,2}
        moved = f32[32,160,288] transpose(across), dimensions={2,1,0}
        products = f32[32,160,288] multiply(rows, moved)
        ROOT sums = f32[32,160] reduce(products, zero), dimensions={2}, to_apply=add"""
    kernel, schedule = _scheduled(fused(text))
    assert schedule.vector_axis == kernel.grid[0]
