# SPDX-License-Identifier: Apache-2.0
"""The work of fusion grows with the program, also where many kernels read one value."""

import sys
from types import FrameType

import pytest

import ingot
from ingot.passes.fusion.decide import decide


def _program(kernels: int, first: str) -> str:
    """Return a program in which each of some products reads its column of one value."""
    lines = [
        f"a = f32[64,{kernels}] parameter(0)",
        f"b = f32[64,{kernels}] parameter(1)",
        "c = f32[64,64] parameter(2)",
        f"shared = f32[64,{kernels}] {first}",
    ]
    for n in range(kernels):
        window = f"slice={{[0:64], [{n}:{n + 1}]}}"
        lines += [
            f"column{n} = f32[64,1] slice(shared), {window}",
            f"t{n} = f32[64,1] add(column{n}, column{n})",
            f"d{n} = f32[64,1] dot(c, t{n}), lhs_contracting_dims={{1}},"
            " rhs_contracting_dims={0}",
        ]
    columns = ", ".join(f"d{n}" for n in range(kernels))
    lines.append(f"ROOT r = f32[64,{kernels}] concatenate({columns}), dimensions={{1}}")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


def _calls(text: str) -> int:
    """Return how many functions and steps of generators `decide` takes for a program."""
    entry = ingot.parse_hlo(text).entry
    calls = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "ingot" in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        decide(entry)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("first", ["multiply(a, b)", "add(a, a)"])
def test_twice_as_many_kernels_that_read_a_value_take_twice_the_work(first):
    _calls(_program(40, first))  # tables that a process fills once
    assert _calls(_program(400, first)) < 2.3 * _calls(_program(200, first))
