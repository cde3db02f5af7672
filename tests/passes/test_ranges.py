# SPDX-License-Identifier: Apache-2.0
"""Ranges of integer instructions hold for every operand, and comparisons outside of them go."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.opset.elementwise import HOLDS
from ingot.passes.simplify.algsimp.comparisons import range_of

WHOLE = (-(1 << 31), (1 << 31) - 1)
CASES = [
    ("ROOT r = s32[9] maximum(x, three)", (3, WHOLE[1])),
    ("ROOT r = s32[9] minimum(x, three)", (WHOLE[0], 3)),
    ("ROOT r = s32[9] clamp(three, x, ten)", (3, 10)),
    ("ROOT r = s32[9] clamp(ten, x, three)", (3, 3)),
    ("c = s32[9] clamp(three, x, ten)  ROOT r = s32[9] add(c, ten)", (13, 20)),
    ("c = s32[9] clamp(three, x, ten)  ROOT r = s32[9] subtract(three, c)", (-7, 0)),
    ("c = s32[9] maximum(x, three)  ROOT r = s32[9] add(c, ten)", WHOLE),  # it may wrap
    ("c = s32[9] minimum(x, three)  ROOT r = s32[9] subtract(c, ten)", WHOLE),
    ("ROOT r = s32[9] and(x, ten)", (0, 10)),
    ("ROOT r = s32[9] and(x, x)", WHOLE),
    ("ROOT r = s32[9] remainder(x, ten)", (-9, 9)),
    ("c = s32[9] maximum(x, three)  ROOT r = s32[9] remainder(c, ten)", (0, 9)),
    ("c = s32[9] clamp(three, x, ten)  ROOT r = s32[9] remainder(c, many)", (0, 10)),
    ("c = s32[9] subtract(three, ten)  ROOT r = s32[9] remainder(x, c)", WHOLE),
    ("ROOT r = s32[9] iota(), iota_dimension=0", (0, 8)),
    ("c = s8[300] iota(), iota_dimension=0  ROOT r = s32[300] convert(c)", (-128, 127)),
    ("c = u8[9] convert(x)  ROOT r = s32[9] convert(c)", (0, 255)),
    ("c = s32[9] clamp(three, x, ten)  d = u8[9] convert(c)  ROOT r = s32[9] convert(d)", (3, 10)),
    ("c = s32[9] maximum(x, three)  d = u8[9] convert(c)  ROOT r = s32[9] convert(d)", (0, 255)),
    ("c = pred[9] compare(x, ten), direction=LT  ROOT r = s32[9] convert(c)", (0, 1)),
    ("c = f32[9] convert(x)  ROOT r = s32[9] convert(c)", WHOLE),
    (
        "c = s32[9] clamp(three, x, ten)  d = s32[3,3] reshape(c)"
        "  e = s32[3,3] transpose(d), dimensions={1,0}  f = s32[2,3] slice(e), slice={[0:2], [0:3]}"
        "  ROOT r = s32[2,3] reverse(f), dimensions={0}",
        (3, 10),
    ),
]
TEXT = """HloModule m
ENTRY e {{
  x = s32[9] parameter(0)
  c3 = s32[] constant(3)
  c10 = s32[] constant(10)
  c99 = s32[] constant(99)
  three = s32[9] broadcast(c3), dimensions={{}}
  ten = s32[9] broadcast(c10), dimensions={{}}
  many = s32[9] broadcast(c99), dimensions={{}}
  {}
}}"""
X = np.array([0, -1, 1, 7, 1000, -1000, *WHOLE, WHOLE[0] + 1], np.int32)


@pytest.mark.parametrize(("body", "wanted"), CASES)
def test_what_a_range_is_and_that_it_holds(body, wanted):
    module = parse(TEXT.format(body))
    low, high = range_of(module.entry.root)
    assert (low, high) == wanted
    for turned in (X, X[::-1], np.full(9, 5, np.int32)):
        found = np.asarray(evaluate(module, [turned]))
        assert low <= found.min()
        assert found.max() <= high


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("bound", [2, 3, 4, 9, 10, 11])
def test_comparisons_outside_of_a_range_are_known(direction, bound):
    body = f"""c = s32[9] clamp(three, x, ten)
  b = s32[] constant({bound})
  d = s32[9] broadcast(b), dimensions={{}}
  ROOT r = pred[9] compare(c, d), direction={direction}"""
    module = parse(TEXT.format(body))
    executable = ingot.compile(module)
    np.testing.assert_array_equal(executable(X), evaluate(module, [X]))
    values = {HOLDS[direction](value, bound) for value in range(3, 11)}
    assert ("compare" in executable.as_text("hlo")) is (len(values) > 1)


def test_no_sign_is_looked_at_behind_a_clip():
    text = TEXT.format("""low = s32[] constant(0)
  i = s32[9] clamp(low, x, c10)
  zero = s32[9] broadcast(low), dimensions={}
  one = s32[] constant(1)
  ones = s32[9] broadcast(one), dimensions={}
  j = s32[9] add(i, ones)
  p = pred[9] compare(j, zero), direction=LT
  k = s32[9] add(j, many)
  ROOT r = s32[9] select(p, k, j)""")
    executable = ingot.compile(text)
    np.testing.assert_array_equal(executable(X), np.clip(X, 0, 10) + 1)
    assert "select" not in executable.as_text("hlo")
