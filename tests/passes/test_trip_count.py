# SPDX-License-Identifier: Apache-2.0
"""Trip counts against loops that are simply run."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest

from ingot.formats.hlo_text import parse
from ingot.hlo.instruction import Instruction
from ingot.passes.simplify.while_loops.trip_count import Induction, trip_count

_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "NE": operator.ne,
}
_LOOP = """HloModule m
body {{
  p = (s8[], f32[]) parameter(0)
  i = s8[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  c = s8[] constant({step})
  j = s8[] {op}(i, c)
  y = f32[] negate(x)
  ROOT t = (s8[], f32[]) tuple(j, y)
}}
condition {{
  p = (s8[], f32[]) parameter(0)
  i = s8[] get-tuple-element(p), index=0
  c = s8[] constant({limit})
  ROOT r = pred[] compare({order}), direction={direction}
}}
ENTRY e {{
  x = f32[] parameter(0)
  s = s8[] constant({start})
  t = (s8[], f32[]) tuple(s, x)
  ROOT w = (s8[], f32[]) while(t), condition=condition, body=body
}}
"""


def _run(start: int, step: int, direction: str, limit: int) -> int | None:
    """Return the trips of a loop over 8-bit integers, None if it wraps around."""
    value, trips = start, 0
    while _HOLDS[direction](value, limit):
        value, trips = value + step, trips + 1
        if not -128 <= value <= 127:
            return None
    return trips


@pytest.mark.parametrize("direction", sorted(_HOLDS))
def test_trips_are_those_of_the_loop(direction: str) -> None:
    for start in (-128, -3, 0, 1, 5, 126, 127):
        for limit in (-128, -1, 0, 1, 7, 10, 127):
            for step in (-3, -1, 1, 2, 3):
                given = Induction(0, start, step, direction, limit, -128, 127)
                assert given.trips == _run(start, step, direction, limit), given


def _loop(**parts: object) -> Instruction:
    values = {"step": 1, "op": "add", "limit": 10, "order": "i, c", "direction": "LT", "start": 0}
    return parse(_LOOP.format(**(values | parts))).entry.root


def test_loops_are_recognized() -> None:
    assert trip_count(_loop()) == 10
    assert trip_count(_loop(order="c, i", direction="GT")) == 10
    assert trip_count(_loop(op="subtract", step=2, start=9, limit=0, direction="GT")) == 5
    assert trip_count(_loop(start=12)) == 0


def test_other_loops_are_not_counted() -> None:
    assert trip_count(_loop(op="multiply")) is None
    assert trip_count(_loop(order="c, c")) is None
    assert trip_count(_loop(limit=127, step=3)) is None
