# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes that no parameter has: a clear error, wherever the size stands."""

from __future__ import annotations

import pytest

import ingot
from ingot.support.diagnostics import UnsupportedError

PROGRAMS = {
    "a result of a static program": "ROOT r = f32[?k] broadcast(c), dimensions={}",
    "bounds of a slice": "ROOT r = f32[4] slice(x), slice={[?k:?(k+4)]}",
    "an array on the way": (
        "b = f32[?k] broadcast(c), dimensions={}  ROOT r = f32[] reduce(b, c), dimensions={0},"
        " to_apply=add"
    ),
}


@pytest.mark.parametrize("size", ["80", "?n"])
@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_a_size_that_no_parameter_has_is_refused(body: str, size: str) -> None:
    text = (
        "HloModule m\n"
        "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }\n"
        f"ENTRY e {{ x = f32[{size}] parameter(0)  c = f32[] constant(1)  {body} }}"
    )
    with pytest.raises(UnsupportedError, match=r"INGOT0331.*size k cannot be found"):
        ingot.compile(ingot.parse_hlo(text))
