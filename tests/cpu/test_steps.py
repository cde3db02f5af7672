# SPDX-License-Identifier: Apache-2.0
"""Which modules have a host program of steps, and that it does what machine code does."""

import numpy as np
import pytest

import ingot
from ingot.artifact.steps import Steps
from ingot.evaluator import evaluate

STRAIGHT = """
HloModule straight, input_output_alias={ {1}: (0, {}, may-alias) }

ENTRY main {
  x = f32[4,3] parameter(0)
  y = f32[3,2] parameter(1)
  table = f32[4,3] constant({{1,2,3},{4,5,6},{7,8,9},{10,11,12}})
  dot = f32[4,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  next = f32[4,3] add(x, table)
  none = f32[0,3] slice(x), slice={[2:2], [0:3]}
  ROOT all = (f32[4,2], f32[4,3], f32[4,3], f32[0,3], f32[4,3]) tuple(dot, next, x, none, table)
}
"""

LOOP = """
HloModule loop

condition {
  i = s32[] parameter(0)
  n = s32[] constant(5)
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
  i = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT next = s32[] add(i, one)
}

ENTRY main {
  start = s32[] parameter(0)
  ROOT end = s32[] while(start), condition=condition, body=body
}
"""

LARGE = """
HloModule large

condition {
  i = s32[9,99] parameter(0)
  one = s32[1,1] slice(i), slice={[0:1], [0:1]}
  first = s32[] reshape(one)
  n = s32[] constant(5)
  ROOT more = pred[] compare(first, n), direction=LT
}

body {
  i = s32[9,99] parameter(0)
  ROOT next = s32[9,99] add(i, i)
}

ENTRY main {
  start = s32[9,99] parameter(0)
  ROOT end = s32[9,99] while(start), condition=condition, body=body
}
"""

SYMBOLIC = """
HloModule symbolic

ENTRY main {
  x = f32[?n] parameter(0)
  ROOT y = f32[?n] add(x, x)
}
"""


def test_a_straight_line_is_steps():
    executable = ingot.compile(ingot.parse_hlo(STRAIGHT))
    assert isinstance(executable.artifact.host, Steps)
    assert "over 1 chunks" in executable.as_text("llvm")
    assert executable.as_text("assembly")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    y = np.arange(6, dtype=np.float32).reshape(3, 2)
    table = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    for _ in range(2):
        product, following, same, none, constant = executable(x, y)
        np.testing.assert_array_equal(product, x @ y)
        np.testing.assert_array_equal(following, x + table)
        np.testing.assert_array_equal(same, np.arange(12, dtype=np.float32).reshape(4, 3))
        np.testing.assert_array_equal(constant, table)
        assert none.shape == (0, 3)


def test_a_donated_argument_is_updated_in_place():
    executable = ingot.compile(ingot.parse_hlo(STRAIGHT))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    kept, y = x.copy(), np.ones((3, 2), np.float32)
    following = executable(x, y, donate=[0])[1]
    np.testing.assert_array_equal(following, kept + np.arange(1, 13).reshape(4, 3))


def test_a_loop_on_small_values_is_one_step():
    executable = ingot.compile(ingot.parse_hlo(LOOP))
    assert isinstance(executable.artifact.host, Steps)
    assert "loop_0 over 1 chunks" in executable.as_text("llvm")
    assert [executable(np.int32(start)) for start in (-3, 4, 5, 7)] == [5, 5, 5, 7]


@pytest.mark.parametrize("text", [LARGE, SYMBOLIC], ids=["large", "symbolic"])
def test_others_have_machine_code(text):
    executable = ingot.compile(ingot.parse_hlo(text))
    assert isinstance(executable.artifact.host, bytes)
    assert "_run" in executable.as_text("llvm")


@pytest.mark.parametrize("size", [65536, 65537, 200003, "?n"])
@pytest.mark.parametrize("is_loop", [False, True])
def test_large_arrays_are_copied_in_chunks(size, is_loop, generator):
    """An update of an argument that is not donated writes a copy of it."""
    shape = f"f32[{size}]"
    update = f"{shape} dynamic-update-slice(x, one, at)"
    module = ingot.parse_hlo(f"""HloModule update
    body {{
      p = ({shape}, s32[]) parameter(0)
      x = {shape} get-tuple-element(p), index=0
      at = s32[] get-tuple-element(p), index=1
      one = f32[1] constant({{7}})
      y = {update}
      step = s32[] constant(65000)
      next = s32[] add(at, step)
      ROOT r = ({shape}, s32[]) tuple(y, next)
    }}
    condition {{
      p = ({shape}, s32[]) parameter(0)
      at = s32[] get-tuple-element(p), index=1
      most = s32[] constant(140000)
      ROOT c = pred[] compare(at, most), direction=LT
    }}
    ENTRY main {{
      x = {shape} parameter(0)
      at = s32[] parameter(1)
      one = f32[1] constant({{7}})
      start = ({shape}, s32[]) tuple(x, at)
      loop = ({shape}, s32[]) while(start), condition=condition, body=body
      looped = {shape} get-tuple-element(loop), index=0
      once = {update}
      ROOT r = {shape} copy({"looped" if is_loop else "once"})
    }}""")
    program = ingot.compile(module)
    x = generator.standard_normal(200003 if size == "?n" else size, np.float32)
    kept = x.copy()
    np.testing.assert_array_equal(program(x, np.int32(3)), evaluate(module, [x, np.int32(3)]))
    np.testing.assert_array_equal(x, kept)
