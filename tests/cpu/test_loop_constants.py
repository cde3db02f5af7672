# SPDX-License-Identifier: Apache-2.0
"""What is the same at every point of a kernel is computed before the loop, not in each unit."""

from __future__ import annotations

import numpy as np

import ingot
from ingot.emit.loop.units import long_constants
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.kernel.expr import walk
from ingot.kernel.parse import parse_kernel

STEPS = 12

KERNEL = """
loop over [@0 < 40] {
  b0 = in f32[1]
  b1 = in f32[40]
  b2 = out f32[40]
  b3 = out f32[1]
  pass over [] {
    v0 = f32 load b0[0]
    v1 = f32 add(v0, v0)
    v2 = f32 add(v1, v1)
    v3 = f32 multiply(v2, v2)
    v4 = f32 multiply(v3, v3)
    v5 = f32 load b3[0]
    v6 = f32 add(v5, v5)
    v7 = f32 add(v6, v6)
    v8 = f32 multiply(v7, v7)
    v9 = f32 load b1[@0]
    v10 = f32 add(v9, v4)
    v11 = f32 add(v10, v8)
    b2[@0] = v11
    b3[0] = v9
  }
}
"""


def _rows_of_three() -> str:
    """Return a module: rows of three, out of reach of lanes, times a hash of a number."""
    lines = ["seed = u32[] parameter(0)", "x = f32[16,32,3] parameter(1)", "h0 = u32[] copy(seed)"]
    for n in range(STEPS):
        lines += [
            f"c{n} = u32[] constant({2654435761 + 2 * n})",
            f"m{n} = u32[] multiply(h{n}, c{n})",
            f"h{n + 1} = u32[] xor(m{n}, c{n})",
        ]
    lines += [
        f"scale = f32[] convert(h{STEPS})",
        "scales = f32[16,28,3] broadcast(scale), dimensions={}",
        "at = s32[] convert(seed)",
        "zero = s32[] constant(0)",
        "cut = f32[16,28,3] dynamic-slice(x, zero, at, zero), dynamic_slice_sizes={16,28,3}",
        "ROOT r = f32[16,28,3] multiply(cut, scales)",
    ]
    return "HloModule m ENTRY e { " + " ".join(lines) + " }"


def test_a_number_of_many_ops_is_computed_once() -> None:
    module = parse(_rows_of_three())
    x = np.arange(16 * 32 * 3, dtype=np.float32).reshape(16, 32, 3)
    seed = np.uint32(3)
    executable = ingot.compile(module)
    np.testing.assert_array_equal(executable(seed, x), evaluate(module, [seed, x]))
    bodies = [body for body in executable.as_text("llvm").split("define ") if "phi" in body]
    (body,) = (body for body in bodies if body.count("xor i32") >= STEPS)
    before, _, loop = body.partition("phi")
    assert before.count("xor i32") == STEPS
    assert "xor i32" not in loop


def test_what_the_kernel_writes_stays_in_the_loop() -> None:
    kernel = parse_kernel(KERNEL)
    (found,) = long_constants(kernel)
    assert found.op == "multiply"
    assert {item.payload.buffer for item in walk((found,)) if item.op == "load"} == {0}
