# SPDX-License-Identifier: Apache-2.0
"""Sums of anything to one number: the parts have code of their own, the rest is the library's."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.dtype import dtype as element_type
from ingot.kernel.evaluate import evaluate_kernel
from ingot.kernel.ir import LoopKernel
from ingot.kernel.lowering import lower_fusion
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.schedule.splits import SplitReduction
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.runtime.native import native_runtime

SIZE = 1 << 20


def _program(opcode: str, start: str, body: str, size: int = SIZE):
    return ingot.parse_hlo(f"""HloModule m
    fold {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] {opcode}(a, b)
    }}
    ENTRY e {{
      x = f32[{size}] parameter(0)
      y = f32[{size}] parameter(1)
      s = f32[] constant({start})
      z = f32[{size}] {body}
      ROOT r = f32[] reduce(z, s), dimensions={{0}}, to_apply=fold
    }}""")


@pytest.mark.parametrize(
    ("opcode", "start", "body"),
    [
        ("add", "0", "divide(x, y)"),
        ("add", "2.5", "power(x, y)"),
        ("maximum", "-inf", "divide(x, y)"),
        ("minimum", "-100", "divide(x, y)"),
        ("multiply", "1", "maximum(x, y)"),
    ],
)
def test_the_rest_is_library_code(opcode, start, body):
    module = _program(opcode, start, body)
    random = np.random.default_rng(0)
    x, y = (random.uniform(0.99, 1.0, SIZE).astype(np.float32) for _ in range(2))
    program = ingot.compile(module)
    assert "fold_" in str(program.artifact.host)
    np.testing.assert_allclose(program(x, y), evaluate(module, [x, y]), rtol=1e-3)


def test_any_number_of_threads_gives_the_same_bits():
    program = ingot.compile(_program("add", "0", "multiply(x, y)"))
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(SIZE, dtype=np.float32) for _ in range(2))
    runtime = native_runtime()
    before, found = runtime.num_threads, set()
    try:
        for count in (1, 2, 3):
            runtime.set_num_threads(count)
            found.add(float(program(x, y)))
    finally:
        runtime.set_num_threads(before)
    assert len(found) == 1


ODD = (SIZE + 1, SIZE + 1_000_003, 2 * SIZE - 64, 2 * SIZE + 8)
"""Elements of arrays whose parts are cut into runs with and without a rest."""


@pytest.mark.parametrize("size", ODD)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "s8", "s64", "u16"])
def test_runs_of_a_part_read_each_element_once(size, dtype):
    random = np.random.default_rng(size)
    x = random.integers(-3, 4, size).astype(element_type(dtype).storage)
    program = ingot.compile(
        f"""HloModule m
        fold {{
          a = s64[] parameter(0)
          b = s64[] parameter(1)
          ROOT c = s64[] add(a, b)
        }}
        ENTRY e {{
          x = {dtype}[{size}] parameter(0)
          s = s64[] constant(7)
          z = s64[{size}] convert(x)
          ROOT r = s64[] reduce(z, s), dimensions={{0}}, to_apply=fold
        }}"""
    )
    assert program(x) == 7 + x.astype(np.int64).sum()


@pytest.mark.parametrize("size", ODD)
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_runs_of_a_part_find_an_extreme_and_nan_anywhere(size, opcode):
    text = _program(opcode, "-inf" if opcode == "maximum" else "inf", "add(x, y)", size)
    program = ingot.compile(text)
    sign = 1 if opcode == "maximum" else -1
    y = np.full(size, -0.0, np.float32)
    for place in (0, 1, size // 3, size - 65, size - 1):
        x = np.zeros(size, np.float32)
        x[place] = sign * np.float32(1e-40)
        assert program(x, y) == x[place]
        x[place] = np.nan
        assert np.isnan(program(x, y))


def test_an_index_is_the_first_of_several_runs():
    size = ODD[1]
    module = ingot.parse_hlo(f"""HloModule m
    first {{
      a = f32[] parameter(0)
      i = s32[] parameter(1)
      b = f32[] parameter(2)
      j = s32[] parameter(3)
      more = pred[] compare(a, b), direction=GT
      same = pred[] compare(a, b), direction=EQ
      none = pred[] compare(a, a), direction=NE
      before = pred[] compare(i, j), direction=LT
      tie = pred[] and(same, before)
      greater = pred[] or(more, none)
      keeps = pred[] or(greater, tie)
      value = f32[] select(greater, a, b)
      index = s32[] select(keeps, i, j)
      ROOT both = (f32[], s32[]) tuple(value, index)
    }}
    ENTRY e {{
      x = f32[{size}] parameter(0)
      i = s32[{size}] iota(), iota_dimension=0
      s = f32[] constant(-inf)
      t = s32[] constant(0)
      ROOT r = (f32[], s32[]) reduce(x, i, s, t), dimensions={{0}}, to_apply=first
    }}""")
    program = ingot.compile(module)
    for places in ((5, 90_000), (70_000, 70_001), (3, size - 1), (size - 9, size - 2)):
        x = np.zeros(size, np.float32)
        x[list(places)] = 2.0
        assert int(program(x)[1]) == places[0]


def test_what_comes_after_a_fold_keeps_it_out_of_the_library():
    text = _program("add", "0", "multiply(x, y)")
    entry = text.entry
    entry.set_root(entry.add("negate", (entry.root,)))
    program = ingot.compile(text)
    x = np.ones(SIZE, np.float32)
    assert program(x, x) == -SIZE
    assert "fold_" not in str(program.artifact.host)


@pytest.mark.parametrize(
    ("body", "is_shared"),
    [
        ("ROOT r = f32[] reduce(x, s), dimensions={0}, to_apply=fold", True),
        (
            "t = f32[] reduce(x, s), dimensions={0}, to_apply=fold\n  ROOT r = f32[] sqrt(t)",
            False,
        ),
    ],
)
def test_the_schedule_says_who_folds_the_parts(body: str, is_shared: bool) -> None:
    kernel = lower_fusion(
        ingot.parse_hlo(f"""HloModule m
        fold {{
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] maximum(a, b)
        }}
        ENTRY e {{
          x = f32[{SIZE}] parameter(0)
          s = f32[] constant(-inf)
          {body}
        }}""").entry
    )
    assert isinstance(kernel, LoopKernel)
    split = schedule_loops(kernel, Vectors.of(TargetSpec.host())).strategy
    assert isinstance(split, SplitReduction)
    assert (split.fold is not None) == is_shared
    if split.fold is not None:
        verify_kernel(split.fold)
        # It folds any number of parts, whatever they were computed from.
        (count,) = split.fold.parameters
        parts = np.array([1, -0.0, 7, np.inf, 3], np.float32)
        memory = [parts, np.zeros(1, np.float32)]
        assert evaluate_kernel(split.fold, memory, {count: 5}) == [np.inf]
