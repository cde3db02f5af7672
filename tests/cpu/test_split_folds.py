# SPDX-License-Identifier: Apache-2.0
"""Sums of anything to one number: the parts have code of their own, the rest is the library's."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
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


def test_what_comes_after_a_fold_keeps_it_out_of_the_library():
    text = _program("add", "0", "multiply(x, y)")
    entry = text.entry
    entry.set_root(entry.add("negate", (entry.root,)))
    program = ingot.compile(text)
    x = np.ones(SIZE, np.float32)
    assert program(x, x) == -SIZE
    assert "fold_" not in str(program.artifact.host)
