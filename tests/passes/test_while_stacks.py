# SPDX-License-Identifier: Apache-2.0
"""Stacks that are known without their loop, and what repeats elements inside of loops."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext, Pipeline
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.simplify.pipeline import FIXED_POINT
from ingot.passes.simplify.while_loops.invariants import while_loop_constant_sinking
from ingot.passes.simplify.while_loops.stacks import while_loop_stack_motion

_INDICES = {
    "forwards": ("add(i, zero)", True),
    "backwards": ("subtract(four, i)", True),
    "clamped": ("clamp(zero, i, four)", True),
    "cut": ("clamp(one, i, four)", False),
    "repeated": ("divide(i, two)", False),
}
_ROWS = {
    "weight": "f32[1,3] reshape(w)",
    "rows": "f32[1,3] dynamic-slice(xs, at, zero), dynamic_slice_sizes={1,3}",
    "other rows": "f32[1,3] dynamic-slice(xs, i, zero), dynamic_slice_sizes={1,3}",
    "work": "f32[1,3] add(x, w_row)",
}


def _module(index: str, row: str, trips: int = 5) -> Module:
    """Return a loop that stacks rows and the numbers of its trips at an index."""
    state = "(s32[], f32[3], f32[5,3], f32[5,3], s32[5])"
    return parse(f"""HloModule m
go {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT p = pred[] compare(i, n), direction=LT
}}
step {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = f32[3] get-tuple-element(s), index=1
  xs = f32[5,3] get-tuple-element(s), index=2
  stack = f32[5,3] get-tuple-element(s), index=3
  numbers = s32[5] get-tuple-element(s), index=4
  zero = s32[] constant(0)
  one = s32[] constant(1)
  two = s32[] constant(2)
  four = s32[] constant(4)
  at = s32[] {_INDICES[index][0]}
  x = f32[1,3] dynamic-slice(xs, i, zero), dynamic_slice_sizes={{1,3}}
  w_row = f32[1,3] reshape(w)
  row = {_ROWS[row]}
  stack2 = f32[5,3] dynamic-update-slice(stack, row, at, zero)
  value = s32[] subtract(two, i)
  number = s32[1] reshape(value)
  numbers2 = s32[5] dynamic-update-slice(numbers, number, at)
  j = s32[] add(i, one)
  ROOT r = {state} tuple(j, w, xs, stack2, numbers2)
}}
ENTRY e {{
  w = f32[3] parameter(0)
  xs = f32[5,3] parameter(1)
  first = f32[5,3] parameter(2)
  other = s32[5] parameter(3)
  zero = s32[] constant(0)
  s = {state} tuple(zero, w, xs, first, other)
  l = {state} while(s), condition=go, body=step
  count = s32[] get-tuple-element(l), index=0
  stack = f32[5,3] get-tuple-element(l), index=3
  numbers = s32[5] get-tuple-element(l), index=4
  ROOT r = (s32[], f32[5,3], s32[5]) tuple(count, stack, numbers)
}}""")


def _check(module: Module, *steps: Pipeline) -> None:
    """Run passes; the module must mean what it meant."""
    before = module.clone()
    for step in steps:
        run_passes(step, module, PassContext(debug=1, to_text=print_module))
    random = np.random.default_rng(3)
    inputs = [
        (10 * random.standard_normal(shape.static_dims)).astype(shape.dtype.numpy)
        for shape in before.parameter_shapes
    ]
    for got, want in zip(evaluate(module, inputs), evaluate(before, inputs), strict=True):
        np.testing.assert_array_equal(got, want)


def _unchanged(module: Module) -> set[int]:
    """Return the elements that the body of the entry's loop gives back."""
    loop = next(one for one in module.entry.instructions if one.opcode == "while")
    results = loop.attributes.body.root.operands
    return {n for n, one in enumerate(results) if one.opcode == "get-tuple-element"}


@pytest.mark.parametrize("row", _ROWS)
@pytest.mark.parametrize("index", _INDICES)
def test_known_rows_are_stacked_without_the_loop(index: str, row: str) -> None:
    module = _module(index, row)
    _check(module, Pipeline("stacks", (while_loop_stack_motion,)))
    visits = _INDICES[index][1]
    is_known = row == "weight" or (row == "rows" and visits)
    moved = _unchanged(module)
    assert (3 in moved) == (is_known and visits)
    assert (4 in moved) == visits
    _check(module, Pipeline("all", (FIXED_POINT,)))


def test_an_index_that_wraps_around_visits_no_row_once() -> None:
    text = print_module(_module("forwards", "weight", 300)).replace("[5", "[300")
    narrow = text.replace(
        "%at = s32[] add(%i.1, %zero)",
        "%byte = u8[] convert(%i.1)\n  %at = s32[] convert(%byte)",
    )
    assert narrow != text
    for changed, moved in ((text, True), (narrow, False)):
        module = parse(changed)
        _check(module, Pipeline("stacks", (while_loop_stack_motion,)))
        assert (3 in _unchanged(module)) == moved


@pytest.mark.parametrize("trips", [4, 6])
def test_a_loop_of_other_trips_keeps_its_stacks(trips: int) -> None:
    module = _module("forwards", "weight", trips)
    _check(module, Pipeline("stacks", (while_loop_stack_motion,)))
    assert _unchanged(module) == {1, 2}


def test_a_loop_without_anything_left_to_do_is_gone() -> None:
    module = _module("backwards", "weight")
    _check(module, Pipeline("all", (FIXED_POINT,)))
    assert "while" not in module.entry.opcodes


def test_a_counter_is_known_after_its_loop() -> None:
    module = _module("forwards", "work")
    _check(module, Pipeline("all", (FIXED_POINT,)))
    count = module.entry.root.operands[0]
    assert count.opcode == "constant"
    assert "while" in module.entry.opcodes


def test_broadcasts_before_a_loop_are_made_inside() -> None:
    module = parse("""HloModule m
go {
  s = (s32[], f32[6,4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)
  ROOT p = pred[] compare(i, n), direction=LT
}
step {
  s = (s32[], f32[6,4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ws = f32[6,4] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  row = f32[1,4] dynamic-slice(ws, i, zero), dynamic_slice_sizes={1,4}
  w = f32[4] reshape(row)
  y = f32[4] multiply(x, w)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[6,4], f32[4]) tuple(j, ws, y)
}
ENTRY e {
  w = f32[4] parameter(0)
  x = f32[4] parameter(1)
  ws = f32[6,4] broadcast(w), dimensions={1}
  zero = s32[] constant(0)
  s = (s32[], f32[6,4], f32[4]) tuple(zero, ws, x)
  l = (s32[], f32[6,4], f32[4]) while(s), condition=go, body=step
  y = f32[4] get-tuple-element(l), index=2
  ROOT r = (f32[4]) tuple(y)
}""")
    sink = Pipeline("sinking", (while_loop_constant_sinking,))
    _check(module, sink)
    assert not run_passes(sink, module, PassContext())
    _check(module, Pipeline("all", (FIXED_POINT,)))
    loop = next(one for one in module.entry.instructions if one.opcode == "while")
    assert {shape.dims for shape in loop.shape.elements} == {(), (4,)}
    assert "dynamic-slice" not in loop.attributes.body.opcodes
