# SPDX-License-Identifier: Apache-2.0
"""Products that move out of loops: the meaning stays, for every form that rows and sums have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext, Pipeline
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.simplify.while_loops.dots import WhileLoopDotCodeMotion

TRIPS, ROWS, INNER, OUTER = 6, 2, 5, 7

_INDICES = {"forwards": "i", "backwards": "subtract(last, i)", "repeated": "divide(i, two)"}
_AXES = (0, 1, 2)


def _dims(axis: int, count: int, inner: int) -> list[int]:
    dims = [ROWS, inner]
    dims.insert(axis, count)
    return dims


def _shape(dims: list[int], element: str = "f32") -> str:
    return f"{element}[{','.join(map(str, dims))}]"


def _row(name: str, source: str, axis: int, inner: int, element: str) -> list[str]:
    """Return the instructions that read a row of `[.., trips, ..]`, as f32 `[rows, inner]`."""
    sizes = _dims(axis, 1, inner)
    starts = ", ".join("at" if n == axis else "zero" for n in range(3))
    lines = [
        f"{name}_row = {_shape(sizes, element)} dynamic-slice({source}, {starts}), "
        f"dynamic_slice_sizes={{{','.join(map(str, sizes))}}}",
    ]
    if element != "f32":
        lines.append(f"{name}_wide = {_shape(sizes)} convert({name}_row)")
    before = f"{name}_row" if element == "f32" else f"{name}_wide"
    return [*lines, f"{name} = f32[{ROWS},{inner}] reshape({before})"]


def _module(
    axis: int, index: str, element: str, *, swapped: bool, turned: bool, own: bool
) -> Module:
    """Return a loop with a product of rows and one that it adds up.

    Args:
        axis: along which the rows of both arrays lie.
        index: which row a trip reads.
        element: the type of the arrays.
        swapped: whether the rows are the second operands.
        turned: whether the sum is that of transposed products.
        own: whether one operand of the sum is computed in the loop.
    """
    xs, ys = _shape(_dims(axis, TRIPS, INNER), element), _shape(_dims(axis, TRIPS, OUTER), element)
    matrix = f"f32[{INNER},{OUTER}]"
    total = f"f32[{OUTER},{INNER}]" if turned else matrix
    state = f"(s32[], {xs}, {ys}, {matrix}, {total}, f32[{ROWS},{OUTER}])"
    flipped = f"f32[{OUTER},{ROWS}]"
    product = (
        [
            f"z_t = {flipped} dot(w, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}",
            f"z = f32[{ROWS},{OUTER}] transpose(z_t), dimensions={{1,0}}",
        ]
        if swapped
        else [
            f"z = f32[{ROWS},{OUTER}] dot(x, w), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}"
        ]
    )
    second = "h2" if own else "y"
    added = (
        [
            f"part = {matrix} dot(x, {second}), lhs_contracting_dims={{0}}, "
            "rhs_contracting_dims={0}",
            f"more = {total} transpose(part), dimensions={{1,0}}",
        ]
        if turned
        else [
            f"more = {matrix} dot(x, {second}), lhs_contracting_dims={{0}}, "
            "rhs_contracting_dims={0}"
        ]
    )
    body = [
        f"s = {state} parameter(0)",
        "i = s32[] get-tuple-element(s), index=0",
        f"xs = {xs} get-tuple-element(s), index=1",
        f"ys = {ys} get-tuple-element(s), index=2",
        f"w = {matrix} get-tuple-element(s), index=3",
        f"total = {total} get-tuple-element(s), index=4",
        f"h = f32[{ROWS},{OUTER}] get-tuple-element(s), index=5",
        "zero = s32[] constant(0)",
        "one = s32[] constant(1)",
        "two = s32[] constant(2)",
        f"last = s32[] constant({TRIPS - 1})",
        "same = s32[] add(i, zero)" if index == "forwards" else f"same = s32[] {_INDICES[index]}",
        "at = s32[] add(same, zero)",
        *_row("x", "xs", axis, INNER, element),
        *_row("y", "ys", axis, OUTER, element),
        *product,
        f"t = f32[{ROWS},{OUTER}] add(z, h)",
        f"t2 = f32[{ROWS},{OUTER}] add(t, y)",
        f"h2 = f32[{ROWS},{OUTER}] tanh(t2)",
        *added,
        f"sum = {total} add(total, more)",
        "j = s32[] add(i, one)",
        f"ROOT r = {state} tuple(j, xs, ys, w, sum, h2)",
    ]
    lines = "\n  ".join(body)
    return parse(f"""HloModule m
go {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({TRIPS})
  ROOT p = pred[] compare(i, n), direction=LT
}}
step {{
  {lines}
}}
ENTRY e {{
  xs = {xs} parameter(0)
  ys = {ys} parameter(1)
  w = {matrix} parameter(2)
  first = {total} parameter(3)
  h = f32[{ROWS},{OUTER}] parameter(4)
  zero = s32[] constant(0)
  s = {state} tuple(zero, xs, ys, w, first, h)
  l = {state} while(s), condition=go, body=step
  sum = {total} get-tuple-element(l), index=4
  last = f32[{ROWS},{OUTER}] get-tuple-element(l), index=5
  ROOT r = ({total}, f32[{ROWS},{OUTER}]) tuple(sum, last)
}}""")


def _moved(module: Module, fp: Fp = Fp.CONTRACT) -> int:
    """Run the pass; return how many products the entry has got."""
    step = Pipeline("moves", (WhileLoopDotCodeMotion(),))
    run_passes(step, module, PassContext(fp=fp, debug=1, to_text=print_module))
    return sum(one.opcode == "dot" for one in module.entry.instructions)


def _check(module: Module, wanted: int) -> None:
    before = module.clone()
    assert _moved(module) == wanted
    random = np.random.default_rng(5)
    inputs = [
        random.standard_normal(shape.static_dims).astype(shape.dtype.numpy)
        for shape in before.parameter_shapes
    ]
    for got, want in zip(evaluate(module, inputs), evaluate(before, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("index", _INDICES)
@pytest.mark.parametrize("axis", _AXES)
def test_every_form_of_rows_and_sums(axis: int, index: str, element: str) -> None:
    for swapped, turned, own in itertools.product((False, True), repeat=3):
        module = _module(axis, index, element, swapped=swapped, turned=turned, own=own)
        # Rows that are read twice have no place of their own in a product of all rows, but what
        # the loop stacks at the number of its trip has. Stacks are not worth it for both.
        sums = index != "repeated"
        _check(module, 1 + sums)


def test_a_sum_keeps_its_order_where_every_result_is_exact() -> None:
    module = _module(0, "forwards", "f32", swapped=False, turned=False, own=True)
    assert _moved(module, Fp.EXACT) == 1


@pytest.mark.parametrize(("trips", "wanted"), [("6", 1), ("5", 0), ("4", 0)])
def test_rows_that_no_trip_reads_are_not_computed(trips: str, wanted: int) -> None:
    text = print_module(_module(0, "forwards", "f32", swapped=False, turned=False, own=True))
    text = text.replace("%n = s32[] constant(6)", f"%n = s32[] constant({trips})")
    module = parse(text)
    before = module.clone()
    assert _moved(module, Fp.EXACT) == wanted
    assert before.instruction_count <= module.instruction_count


def test_kept_bytes_are_limited() -> None:
    module = _module(0, "forwards", "f32", swapped=False, turned=False, own=True)
    small = WhileLoopDotCodeMotion(most_bytes=TRIPS * ROWS * OUTER * 4 - 1)
    assert not run_passes(Pipeline("moves", (small,)), module, PassContext())
