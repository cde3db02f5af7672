# SPDX-License-Identifier: Apache-2.0
"""What ops demand of symbolic sizes is checked before anything runs."""

import numpy as np
import pytest

import ingot

OPS = {
    "slice": "ROOT r = f32[5] slice(p), slice={[0:5]}",
    "slice to the end": "ROOT r = f32[?(n-5)] slice(p), slice={[5:?n]}",
    "dynamic-slice": """i = s32[] constant(0)
  ROOT r = f32[5] dynamic-slice(p, i), dynamic_slice_sizes={5}""",
    "dynamic-update-slice": """i = s32[] constant(0) u = f32[5] constant({1, 2, 3, 4, 5})
  ROOT r = f32[?n] dynamic-update-slice(p, u, i)""",
    "topk": "ROOT r = (f32[5], s32[5]) topk(p), k=5, largest=true",
}


@pytest.mark.parametrize("op", OPS)
def test_an_argument_that_is_too_small_is_refused(op: str) -> None:
    text = f"HloModule m\nENTRY e {{ p = f32[?n] parameter(0)\n  {OPS[op]} }}"
    program = ingot.compile(ingot.parse_hlo(text))
    program(np.ones(5, np.float32))
    with pytest.raises(ingot.IngotError, match="n is dimension 0 of 'p'"):
        program(np.ones(4, np.float32))


def test_what_a_branch_demands_is_no_demand_of_the_program() -> None:
    text = """HloModule m
short { p = f32[?n] parameter(0) ROOT r = f32[] constant(0) }
long { p = f32[?n] parameter(0) s = f32[1] slice(p), slice={[4:5]} ROOT r = f32[] reshape(s) }
ENTRY e { p = f32[?n] parameter(0) n = s32[] get-dimension-size(p), dimensions={0}
  five = s32[] constant(5) is_long = pred[] compare(n, five), direction=GE
  ROOT r = f32[] conditional(is_long, p, p), true_computation=long, false_computation=short }"""
    program = ingot.compile(ingot.parse_hlo(text))
    assert program(np.arange(5, dtype=np.float32)) == 4
    assert program(np.arange(3, dtype=np.float32)) == 0


@pytest.mark.parametrize("opcode", ["conditional", "while"])
def test_what_a_region_demands_is_checked_when_it_runs(opcode: str) -> None:
    window = "w = f32[5] dynamic-slice(x, i), dynamic_slice_sizes={5}"
    if opcode == "conditional":
        text = f"""HloModule m
yes {{ x = f32[?n] parameter(0) i = s32[] constant(1) {window}
  ROOT r = f32[1] slice(w), slice={{[0:1]}} }}
no {{ x = f32[?n] parameter(0) ROOT r = f32[1] constant({{-1}}) }}
ENTRY e {{ p = f32[?n] parameter(0) c = s32[] parameter(1) one = s32[] constant(1)
  flag = pred[] compare(c, one), direction=GE
  ROOT r = f32[1] conditional(flag, p, p), true_computation=yes, false_computation=no }}"""
    else:
        text = f"""HloModule m
test {{ s = (s32[], s32[], f32[?n], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0
  c = s32[] get-tuple-element(s), index=1 ROOT r = pred[] compare(i, c), direction=LT }}
turn {{ s = (s32[], s32[], f32[?n], f32[5]) parameter(0) i = s32[] get-tuple-element(s), index=0
  c = s32[] get-tuple-element(s), index=1 x = f32[?n] get-tuple-element(s), index=2 {window}
  one = s32[] constant(1) j = s32[] add(i, one) v = f32[5] multiply(w, w)
  ROOT r = (s32[], s32[], f32[?n], f32[5]) tuple(j, c, x, v) }}
ENTRY e {{ p = f32[?n] parameter(0) c = s32[] parameter(1) zero = s32[] constant(0)
  five = f32[5] constant({{-1, 0, 0, 0, 0}})
  s = (s32[], s32[], f32[?n], f32[5]) tuple(zero, c, p, five)
  l = (s32[], s32[], f32[?n], f32[5]) while(s), condition=test, body=turn
  f = f32[5] get-tuple-element(l), index=3 ROOT r = f32[1] slice(f), slice={{[0:1]}} }}"""
    program = ingot.compile(ingot.parse_hlo(text))
    assert program(np.ones(6, np.float32), np.int32(1)) == 1
    assert program(np.ones(4, np.float32), np.int32(0)) == -1
    with pytest.raises(ingot.IngotError, match="n is dimension 0 of 'p'"):
        program(np.ones(4, np.float32), np.int32(1))
    assert program(np.ones(5, np.float32), np.int32(2)) == 1
