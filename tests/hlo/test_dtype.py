# SPDX-License-Identifier: Apache-2.0
"""Element types: their least and greatest values are values of theirs."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.hlo.dtype import DTYPES, greatest, has_infinity, least
from ingot.support.diagnostics import ParseError

REAL = [row for row in DTYPES.values() if row.is_float or row.is_integer]


@pytest.mark.parametrize("element", REAL, ids=lambda row: row.name)
def test_least_and_greatest_are_values_of_the_type(element):
    for value in (least(element), greatest(element)):
        assert np.array(value).astype(element.numpy).astype(object) == value


@pytest.mark.parametrize("element", [row for row in REAL if row.is_float], ids=lambda r: r.name)
@pytest.mark.parametrize("text", ["inf", "-inf"])
def test_infinities_are_literals_of_types_that_have_them(element, text):
    program = f"HloModule m\nENTRY e {{\n  ROOT r = {element.name}[2] constant({{0, {text}}})\n}}"
    program = program.replace("{0,", "{1,")
    if has_infinity(element):
        value = ingot.parse_hlo(program).entry.root.attributes.literal.value
        assert value.astype(np.float64)[1] == float(text)
    else:
        with pytest.raises(ParseError, match="INGOT0106"):
            ingot.parse_hlo(program)


@pytest.mark.parametrize("name", ["f8e4m3fn", "f8e5m2", "f4e2m1fn", "f8e4m3fnuz"])
def test_sorts_and_maxima_of_dynamic_sizes_are_of_the_elements_that_are_there(name):
    """What is behind the size must come last, and must not be NaN."""
    program = ingot.compile(
        ingot.parse_hlo(f"""
        HloModule m
        less {{
          a = {name}[] parameter(0)
          b = {name}[] parameter(1)
          ROOT c = pred[] compare(a, b), direction=LT
        }}
        most {{
          a = {name}[] parameter(0)
          b = {name}[] parameter(1)
          ROOT c = {name}[] maximum(a, b)
        }}
        ENTRY e {{
          x = {name}[4] parameter(0)
          n = s32[] parameter(1)
          s = {name}[<=4] set-dimension-size(x, n), dimensions={{0}}
          low = {name}[] constant({least(DTYPES[name])})
          m = {name}[] reduce(s, low), dimensions={{0}}, to_apply=most
          o = {name}[<=4] sort(s), dimensions={{0}}, to_apply=less
          ROOT r = ({name}[<=4], {name}[]) tuple(o, m)
        }}
    """)
    )
    x = np.array([3, 1, 4, 6]).astype(DTYPES[name].numpy)
    ordered, most = program(x, np.int32(3))
    assert ordered.astype(np.float32).tolist() == [1, 3, 4]
    assert float(most) == 4
