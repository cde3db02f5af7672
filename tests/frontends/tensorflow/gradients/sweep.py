# SPDX-License-Identifier: Apache-2.0
"""The table of programs and ways: one cell, or all of them.

    python -m tests.frontends.tensorflow.gradients.sweep ['programs' ['ways']]

compares the cells whose names match the two patterns and prints those that fail. Nests, whose names
have spaces, are compared where a pattern asks for them: `'.* in loop in .*' 'outside 2'`.
"""

import re
import sys

import numpy as np
from tests.frontends.tensorflow.gradients.nests import NESTS
from tests.frontends.tensorflow.gradients.table import PROGRAMS, Program
from tests.frontends.tensorflow.gradients.ways import WAYS
from tests.frontends.tensorflow.programs.beside import counting_compiler, run

from ingot.frontends.tensorflow import hook

_TENSORFLOW = "TensorFlow's own tangents do not take the lists that a gradient keeps"
_ADDED_LISTS = "TensorFlow itself does not add a list of unknown elements to one of known elements"
_LAYERS = ("lstm", "gru", "simple_rnn")
_LOOPS = (
    "bare_loop", "bounded_loop", "loop_by_data", "autograph_for", "autograph_while",
    "loop_over_rows", "array_in_a_loop", "array_read", "scan", "map_fn", "nested_loops",
    "loop_of_two_states", "calls_in_a_loop", *_LAYERS,
)  # fmt: skip
_BRANCHES = (
    "branch", "other_branch", "branch_without_gradient", "case", "branch_in_branch",
    "shapes_in_branch", "calls_in_a_branch",
)  # fmt: skip

CANNOT: dict[tuple[str, str], str] = {
    **{
        ("recomputed", way): "tf.recompute_grad has no second derivative"
        for way in WAYS
        if way not in ("outside 1", "open 1", "inside 1", "graph 1", "gradients 1")
        and "jacobian" not in way
    },
    **{(name, "tangent of gradient"): _TENSORFLOW for name in (*_LOOPS, *_BRANCHES)},
    **{(name, "between 3"): _ADDED_LISTS for name in _LAYERS},
}
"""Cells that are known to fail, and why."""


def compare(program: Program, way: str) -> None:
    """Hold a cell of the table against plain TensorFlow, up to the size of its numbers."""
    hook.disable()
    wanted = run(lambda jit: WAYS[way](program, jit), None)
    hook.enable(counting_compiler)
    got = run(lambda jit: WAYS[way](program, jit), True)
    assert len(got) == len(wanted)
    for have, want in zip(got, wanted, strict=True):
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        scale = max(1.0, float(np.abs(want).max(initial=0.0)))
        np.testing.assert_allclose(have / scale, want / scale, rtol=2e-4, atol=2e-5)


def main() -> None:
    """Compare the cells that the command line asks for."""
    programs = sys.argv[1] if len(sys.argv) > 1 else r"\w+"
    ways = sys.argv[2] if len(sys.argv) > 2 else ".*"
    everything = {**PROGRAMS, **NESTS}
    cells = [
        (name, way)
        for name in everything
        for way in WAYS
        if re.fullmatch(programs, name) and re.fullmatch(ways, way) and (name, way) not in CANNOT
    ]
    failed = 0
    for name, way in cells:
        try:
            compare(everything[name], way)
        except Exception as error:  # each cell is its own
            failed += 1
            text = re.sub(r"\s+", " ", str(error))
            print(f"{name:24} {way:20} {type(error).__name__}: {text[:400]}", flush=True)
    print(f"{len(cells)} cells, {failed} failed")


if __name__ == "__main__":
    main()
