# SPDX-License-Identifier: Apache-2.0
"""Loops that run two steps for each trip, so that no state is copied: which, and what they give."""

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.passes.buffers.double_loops import LEAST_BYTES, LEAST_TRIPS
from ingot.semantics.trip_counts import known_trip_count

SIZE = LEAST_BYTES // 4

STEPS = {
    "neighbours": ("next", "v"),
    "two times": ("next", "u"),
    "change places": ("v", "u"),
    "in place": ("both", "v"),
}
"""What becomes of the states u and v."""

COPIED = {"neighbours", "two times", "change places"}


def loop(step: str, trips: int, size: int = SIZE, element: str = "f32") -> ingot.hlo.module.Module:
    """Return a loop over two arrays, which also writes a row of a stack in each trip."""
    array, rows = f"{element}[{size}]", f"{element}[{max(trips, 1)}]"
    state = f"(s32[], {array}, {array}, {rows})"
    return ingot.parse_hlo(f"""HloModule steps

body {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  u = {array} get-tuple-element(p), index=1
  v = {array} get-tuple-element(p), index=2
  rows = {rows} get-tuple-element(p), index=3
  first = {element}[1] slice(u), slice={{[0:1]}}
  rest = {element}[{size - 1}] slice(u), slice={{[1:{size}]}}
  moved = {array} concatenate(rest, first), dimensions={{0}}
  both = {array} subtract(u, v)
  next = {array} subtract(moved, v)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  stack = {rows} dynamic-update-slice(rows, first, i)
  ROOT t = {state} tuple(j, {", ".join(STEPS[step])}, stack)
}}

condition {{
  q = {state} parameter(0)
  k = s32[] get-tuple-element(q), index=0
  end = s32[] constant({trips})
  ROOT less = pred[] compare(k, end), direction=LT
}}

ENTRY main {{
  x = {array} parameter(0)
  y = {array} parameter(1)
  zero = s32[] constant(0)
  none = {element}[] constant({"(0, 0)" if element == "c64" else 0})
  empty = {rows} broadcast(none), dimensions={{}}
  start = {state} tuple(zero, x, y, empty)
  ROOT w = {state} while(start), condition=condition, body=body
}}
""")


def inputs(module):
    random = np.random.default_rng(0)
    shapes = [parameter.shape for parameter in module.entry.parameters]
    return [random.integers(-9, 9, s.dims).astype(s.dtype.numpy) for s in shapes]


def trips_of(executable):
    """Return the trip counts of the compiled loops, and how many copies their bodies make."""
    loops = [one for one in executable.module.entry.instructions if one.opcode == "while"]
    copies = [sum(i.opcode == "copy" for i in one.attributes.body.instructions) for one in loops]
    return [known_trip_count(one) for one in loops], sum(copies)


@pytest.mark.parametrize("trips", [LEAST_TRIPS, LEAST_TRIPS + 1, 30, 31])
@pytest.mark.parametrize("step", STEPS)
def test_each_step_without_copies(step, trips):
    module = loop(step, trips)
    executable = agrees(module, inputs(module)).executable
    counts, copies = trips_of(executable)
    assert counts == [trips // 2 if step in COPIED else trips]
    assert copies == 0


@pytest.mark.parametrize("element", ["s8", "bf16", "f64", "s64", "c64"])
def test_element_types(element):
    module = loop("two times", 11, 1027, element)
    executable = agrees(module, inputs(module)).executable
    assert trips_of(executable) == ([5], 0)


def test_special_values():
    module = loop("two times", 9)
    x, y = inputs(module)
    x[3], x[7], y[5], y[6] = np.inf, np.nan, -0.0, 1e-42
    assert trips_of(agrees(module, [x, y], exact="signs").executable) == ([4], 0)


@pytest.mark.parametrize(
    ("trips", "size"), [(0, SIZE), (1, SIZE), (LEAST_TRIPS - 1, SIZE), (50, SIZE // 4 - 1)]
)
def test_few_trips_and_small_states_are_not_doubled(trips, size):
    module = loop("neighbours", trips, size)
    counts, _ = trips_of(agrees(module, inputs(module)).executable)
    assert counts in ([], [trips])


def test_both_steps_are_one_kernel():
    module = loop("neighbours", 31)
    executable = ingot.compile(module)
    names = [kernel.name for kernel in executable.kernels if "concatenate" in kernel.opcodes]
    assert len(names) == 3
    assert len(set(names)) == 1
