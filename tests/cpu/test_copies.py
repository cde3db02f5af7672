# SPDX-License-Identifier: Apache-2.0
"""Kernels that only copy rows: which of them are boxes, and every bit as it was."""

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
    "reversed": ("reverse(x), dimensions={0}", "f32[3,700]", True),
    "backwards": ("reverse(x), dimensions={1}", "f32[3,700]", False),
    "computed": ("negate(x)", "f32[3,700]", False),
}


@pytest.mark.parametrize("name", MOVES)
def test_rows_are_boxes(name):
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
    assert (executable.kernels[0].strategy == "box copies") == is_copied
    found = np.asarray(executable.call(*inputs))
    if name != "computed":
        wanted = np.asarray(evaluate(module, inputs))
        np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("element", ["f32", "u8"])
@pytest.mark.parametrize("width", [1, 7, 13, 503])
def test_rows_of_any_length_are_one_run(element: str, width: int) -> None:
    """What lies above another is asked of elements, not of rows."""
    text = f"""HloModule rows

ENTRY main {{
  x = {element}[9,{width}] parameter(0)
  y = {element}[4,{width}] parameter(1)
  z = {element}[] constant(3)
  a = {element}[22,{width}] concatenate(x, y, x), dimensions={{0}}
  b = {element}[25,{width}] pad(a, z), padding=1_2x0_0
  c = {element}[20,{width}] slice(b), slice={{[3:23], [0:{width}]}}
  ROOT r = ({element}[22,{width}], {element}[25,{width}], {element}[20,{width}]) tuple(a, b, c)
}}
"""
    module = ingot.parse_hlo(text)
    kind = np.dtype(np.float32 if element == "f32" else np.uint8)
    x, y = (np.arange(rows * width).reshape(rows, width).astype(kind) for rows in (9, 4))
    found = ingot.compile(module)(x, y + kind.type(1))
    for one, other in zip(found, evaluate(module, [x, y + kind.type(1)]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_concatenated_rows_are_one_axis() -> None:
    module = ingot.parse_hlo("""HloModule rows

ENTRY main {
  x = u8[200,500] parameter(0)
  y = u8[301,500] parameter(1)
  ROOT r = u8[501,500] concatenate(x, y), dimensions={0}
}
""")
    assert "over [@0 < 250500]" in ingot.compile(module).as_text("kernel")
