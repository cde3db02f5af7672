# SPDX-License-Identifier: Apache-2.0
"""Choices between two places of a buffer: one load where lanes agree, masks where they do not."""

import numpy as np
import pytest
from tests.kernel.programs import fused

import ingot
from ingot.kernel.expr import walk
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.passes.select_to_index import select_to_index

ROLL = """x = f32[{rows},{columns}] parameter(0)
  last = f32[{kept}] slice(x), slice={{{tail}}}
  first = f32[{moved}] slice(x), slice={{{head}}}
  r = f32[{rows},{columns}] concatenate(last, first), dimensions={{{axis}}}
  ROOT out = f32[{rows},{columns}] negate(r)"""


def roll(axis, by, rows=20, columns=70):
    """Return the body of a program that rolls an axis by `by`."""
    shape = [rows, columns]
    cut = shape[axis] - by
    kept, moved = shape.copy(), shape.copy()
    kept[axis], moved[axis] = by, cut
    tail, head = [f"[0:{size}]" for size in shape], [f"[0:{size}]" for size in shape]
    tail[axis], head[axis] = f"[{cut}:{shape[axis]}]", f"[0:{cut}]"
    return ROLL.format(
        rows=rows, columns=columns, axis=axis, kept=",".join(map(str, kept)),
        moved=",".join(map(str, moved)), tail=",".join(tail), head=",".join(head),
    )  # fmt: skip


def loads(kernel):
    return [node for node in walk(kernel.exprs) if node.op == "load"]


def merged(body):
    return select_to_index(collapse(build_loop_kernel(fused(body))))


def test_one_load_where_lanes_agree():
    (load,) = loads(merged(roll(0, 3)))
    assert not load.payload.masked
    assert len(load.args) == 1


def test_two_masked_loads_along_the_lanes():
    found = loads(merged(roll(1, 3)))
    assert [load.payload.masked for load in found] == [True, True]


def test_other_buffers_stay():
    body = """x = f32[20,70] parameter(0)
  y = f32[20,70] parameter(1)
  r = f32[40,70] concatenate(x, y), dimensions={0}
  ROOT out = f32[40,70] negate(r)"""
    kernel = collapse(build_loop_kernel(fused(body)))
    assert select_to_index(kernel) is kernel


@pytest.mark.parametrize("by", [1, 7, 19])
@pytest.mark.parametrize("axis", [0, 1])
def test_rolled_values(axis, by):
    text = "HloModule m\nENTRY e { " + roll(axis, by) + " }"
    x = np.arange(1400, dtype=np.float32).reshape(20, 70)
    np.testing.assert_array_equal(ingot.compile(ingot.parse_hlo(text))(x), -np.roll(x, by, axis))


def test_a_box_rolled_both_ways():
    lines, total = ["x = f32[5,6,70] parameter(0)"], "x"
    shape = (5, 6, 70)
    for axis in range(3):
        for by in (1, shape[axis] - 1):
            name = f"a{axis}b{by}"
            cut = shape[axis] - by

            def part(start, end, axis=axis):
                ranges = [f"[0:{size}]" for size in shape]
                ranges[axis] = f"[{start}:{end}]"
                sizes = [str(s) for s in shape]
                sizes[axis] = str(end - start)
                return f"f32[{','.join(sizes)}] slice(x), slice={{{','.join(ranges)}}}"

            lines += [
                f"{name}t = {part(cut, shape[axis])}",
                f"{name}h = {part(0, cut)}",
                f"{name} = f32[5,6,70] concatenate({name}t, {name}h), dimensions={{{axis}}}",
                f"{name}s = f32[5,6,70] add({total}, {name})",
            ]
            total = f"{name}s"
    lines[-1] = "ROOT " + lines[-1]
    executable = ingot.compile(ingot.parse_hlo("HloModule m\nENTRY e { " + "\n".join(lines) + " }"))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    wanted = x + sum(np.roll(x, by, axis) for axis in range(3) for by in (1, -1))
    np.testing.assert_array_equal(executable(x), wanted)
