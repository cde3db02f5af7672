"""Kernels that only copy long rows: one call for a run, no vectors, every bit as it was."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate

MOVES = {
    "rows": (
        "concatenate(x, y), dimensions={0}",
        "f32[7,700]",
        True,
    ),
    "columns": ("concatenate(x, z), dimensions={1}", "f32[3,1100]", True),
    "slice": ("slice(x), slice={[1:3], [100:600]}", "f32[2,500]", True),
    "short": ("slice(x), slice={[1:3], [100:200]}", "f32[2,100]", False),
    "reversed": ("reverse(x), dimensions={0}", "f32[3,700]", True),
    "backwards": ("reverse(x), dimensions={1}", "f32[3,700]", False),
    "computed": ("negate(x)", "f32[3,700]", False),
}


@pytest.mark.parametrize("name", MOVES)
def test_long_rows_are_copied(name):
    body, shape, is_copied = MOVES[name]
    module = ingot.parse_hlo(f"""HloModule moves

ENTRY main {{
  x = f32[3,700] parameter(0)
  y = f32[4,700] parameter(1)
  z = f32[3,400] parameter(2)
  ROOT out = {shape} {body}
}}
""")
    random = np.random.default_rng(0)
    shapes = (3, 700), (4, 700), (3, 400)
    inputs = [random.integers(0, 1 << 32, size, np.uint32).view(np.float32) for size in shapes]
    executable = ingot.compile(module)
    assert ("@memmove" in executable.as_text("llvm")) == is_copied
    found = np.asarray(executable.call(*inputs))
    if name != "computed":
        wanted = np.asarray(evaluate(module, inputs))
        np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))
