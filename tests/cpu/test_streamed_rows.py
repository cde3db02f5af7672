# SPDX-License-Identifier: Apache-2.0
"""Folds of columns of large arrays: some rows of all columns are folded before the next rows."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.dtype import dtype
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.schedule.splits import SplitReduction
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.runtime.native import native_runtime


def _program(rows, columns, body, *, element="f32", fold="add", start="0", after="negate(r)"):
    return ingot.parse_hlo(f"""HloModule m
    fold {{
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] {fold}(a, b)
    }}
    ENTRY e {{
      x = {element}[{rows},{columns}] parameter(0)
      y = f32[{columns}] parameter(1)
      s = f32[] constant({start})
      w = f32[{rows},{columns}] broadcast(y), dimensions={{1}}
      z = f32[{rows},{columns}] {body}
      r = f32[{columns}] reduce(z, s), dimensions={{0}}, to_apply=fold
      ROOT t = f32[{columns}] {after}
    }}""")


def _inputs(generator, rows, columns, element="f32"):
    x = generator.uniform(0.99, 1.01, (rows, columns))
    return [x.astype(dtype(element).numpy), generator.standard_normal(columns).astype(np.float32)]


PROGRAMS = [
    # columns that fill vectors, and that do not; rows that are whole groups, and that are not
    (304, 768, {"body": "multiply(x, w)", "after": "add(r, y)"}),
    (301, 1000, {"body": "multiply(x, w)", "start": "2.5", "after": "negate(r)"}),
    (257, 513, {"body": "subtract(x, w)", "fold": "maximum", "start": "-inf", "after": "abs(r)"}),
    (640, 521, {"body": "add(x, w)", "fold": "minimum", "start": "-3", "after": "add(r, y)"}),
    (129, 1031, {"body": "maximum(x, x)", "fold": "multiply", "start": "2", "after": "abs(r)"}),
    (515, 1030, {"body": "convert(x)", "element": "bf16", "after": "multiply(r, y)"}),
    ("?n", 768, {"body": "multiply(x, w)", "after": "add(r, y)"}),
]


@pytest.mark.parametrize(("rows", "columns", "options"), PROGRAMS, ids=lambda item: str(item)[:9])
def test_columns_are_folded_as_by_the_evaluator(rows, columns, options, generator):
    module = _program(rows, columns, **options)
    program = ingot.compile(module)
    for count in (0, 1, 7, 400) if rows == "?n" else (rows,):
        values = _inputs(generator, count, columns, options.get("element", "f32"))
        np.testing.assert_allclose(program(*values), evaluate(module, values), rtol=2e-4, atol=2e-4)


def _streamed(rows, columns, kind="f32"):
    module = ingot.parse_hlo(f"""HloModule m
    fold {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)  ROOT c = {kind}[] add(a, b) }}
    ENTRY e {{
      x = {kind}[{rows},{columns}] parameter(0)
      s = {kind}[] constant(0)
      ROOT r = {kind}[{columns}] reduce(x, s), dimensions={{0}}, to_apply=fold
    }}""")
    kernel = collapse(build_loop_kernel(module.entry))
    strategy = schedule_loops(kernel, Vectors.of(TargetSpec.host())).strategy
    return strategy.rows if isinstance(strategy, SplitReduction) else 0


def test_large_arrays_of_long_rows_are_read_row_after_row():
    assert _streamed(4096, 1024) == 8
    assert _streamed("?n", 1024) == 8
    assert _streamed(2048, 512, "f64") == 8
    assert _streamed(64, 1024) == 0  # the L2 cache holds it
    assert _streamed(1 << 16, 32) == 0  # a unit reads whole rows
    assert _streamed(128, 1 << 20) == 0  # sums do not stay in the L2 cache


def test_any_number_of_threads_gives_the_same_bits(generator):
    program = ingot.compile(_program(1000, 777, "multiply(x, w)"))
    values = _inputs(generator, 1000, 777)
    runtime = native_runtime()
    before, found = runtime.num_threads, set()
    try:
        for count in (1, 2, 3):
            runtime.set_num_threads(count)
            found.add(program(*values).tobytes())
    finally:
        runtime.set_num_threads(before)
    assert len(found) == 1
