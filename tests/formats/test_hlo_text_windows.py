# SPDX-License-Identifier: Apache-2.0
"""HLO text: windows read back, and print as XLA prints them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import real_xla

from ingot.formats.hlo_text.reader import Reader
from ingot.formats.hlo_text.window_text import read_window, write_window
from ingot.hlo.window import WindowDimension
from ingot.support.diagnostics import ParseError

PROGRAM = """HloModule m
add {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }}
ENTRY e {{
  x = f32[8,9] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[{shape}] reduce-window(x, z), window={window}, to_apply=add
}}"""

dimensions = st.builds(
    WindowDimension,
    size=st.integers(1, 3),
    stride=st.integers(1, 3),
    low=st.integers(-1, 3),
    high=st.integers(-1, 3),
    base_dilation=st.integers(1, 3),
    window_dilation=st.integers(1, 3),
    reversal=st.booleans(),
)


@given(st.lists(dimensions, max_size=4).map(tuple))
def test_windows_read_back(window: tuple[WindowDimension, ...]):
    assert read_window(Reader(write_window(window))) == window


@pytest.mark.parametrize(
    "window",
    [
        "{size=2x2 stride=2x2 pad=0_1x0_1}",
        "{size=1x3 pad=0_0x1_1 lhs_dilate=2x1 rhs_dilate=1x2}",
        "{size=2x2}",
    ],
)
def test_xla_gives_the_same_text_and_the_same_number_of_windows(window: str):
    read = read_window(Reader(window))
    shape = ",".join(str(each.count(size)) for each, size in zip(read, (8, 9), strict=True))
    theirs = real_xla.canonical_text(PROGRAM.format(shape=shape, window=window))
    found = re.search(r"window=(\{[^}]*\})", theirs)
    assert found is not None
    assert write_window(read) == found.group(1)


@pytest.mark.parametrize(
    "text", ["{size=2 sride=1}", "{size=2x2 pad=1_1}", "{size=2 pad=1}", "{pad=1_1}", "{size=2"]
)
def test_invalid_windows_are_refused(text: str):
    with pytest.raises(ParseError):
        read_window(Reader(text))
