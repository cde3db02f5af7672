# SPDX-License-Identifier: Apache-2.0
"""Masked loads that cannot leave their buffer lose their masks; numbers stay the evaluator's."""

import numpy as np
import pytest
from tests.kernel.programs import fused

import ingot
from ingot.evaluator import evaluate
from ingot.kernel.expr import walk
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.passes.unmask_loads import unmask_loads

PAD = """x = {dtype}[{rows},{columns}] parameter(0)
  c = {dtype}[] constant(3)
  ROOT out = {dtype}[{out}] pad(x, c), padding={padding}"""


def pad(padding, rows=9, columns=70, dtype="f32"):
    """Return the body of a program that pads; `padding` is low, high, interior of each axis."""
    sizes = [rows, columns]
    out = [
        low + high + n + (n - 1) * inner
        for n, (low, high, inner) in zip(sizes, padding, strict=True)
    ]
    text = "x".join("_".join(map(str, item)) for item in padding)
    return PAD.format(
        dtype=dtype, rows=rows, columns=columns, out=",".join(map(str, out)), padding=text
    )


def masks(body):
    kernel = unmask_loads(collapse(build_loop_kernel(fused(body))))
    return [node.payload.masked for node in walk(kernel.exprs) if node.op == "load"]


def test_interior_padding_reads_without_masks():
    assert masks(pad([(0, 0, 1), (0, 0, 2)])) == [False]


def test_what_may_lie_outside_keeps_its_mask():
    assert masks(pad([(0, 0, 1), (1, 0, 1)])) == [True]
    assert masks(pad([(0, 0, 0), (0, 2, 1)])) == [True]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8", "f64"])
@pytest.mark.parametrize(
    "padding",
    [
        [(0, 0, 1), (0, 0, 1)],
        [(0, 0, 0), (0, 0, 3)],
        [(2, 1, 1), (0, 3, 1)],
        [(0, 0, 2), (1, 0, 2)],
        [(0, 0, 0), (-3, -2, 1)],
        [(0, 0, 0), (0, 0, 6)],
    ],
)
def test_padding_is_the_evaluators(padding, dtype):
    module = ingot.parse_hlo(f"HloModule m\n\nENTRY main {{\n  {pad(padding, dtype=dtype)}\n}}")
    numbers = np.random.default_rng(0).integers(0, 100, (9, 70))
    x = numbers.astype(module.entry.parameters[0].shape.dtype.numpy)
    wanted = np.asarray(evaluate(module, [x]))
    found = np.asarray(ingot.compile(module).call(x))
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
