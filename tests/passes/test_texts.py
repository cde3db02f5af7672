# SPDX-License-Identifier: Apache-2.0
"""`tests/passes/<pass>/*.hlo`: a module, and beside it the text that one pass must make of it.

A file holds a module and the expected text (`tests/expected_text.py`): the module that the pass
leaves; of `fusion`, why each edge was fused or not; of `buffers`, which value lies where; of
`spmd`, the program of one device.

`pytest tests/passes --bless` writes what the pass gives now; look at the difference before
committing it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.expected_text import check_expected, expectation, shown
from tests.passes.buffers.common import prepare

from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext, Pipeline, passes_of
from ingot.hlo.rewrite.runner import run_passes
from ingot.hlo.verifier import verify
from ingot.passes.buffers.contents import assignment_text
from ingot.passes.buffers.double_loops import double_loops
from ingot.passes.expand.dynamic.boundary import exact_boundary
from ingot.passes.expand.product_types import change_op_data_type
from ingot.passes.fusion.attention import attention_fusion
from ingot.passes.fusion.fusion import fusion
from ingot.passes.simplify.pipeline import SIMPLIFICATION
from ingot.passes.simplify.while_loops.trip_count import while_loop_trip_count_annotator
from ingot.passes.spmd.partition import partition
from ingot.semantics.device_groups import grid_of

_HERE = Path(__file__).parent


def _after(step: Pass | Pipeline, module: Module) -> str:
    """Return the module that passes leave."""
    run_passes(step, module, PassContext(debug=1, to_text=print_module))
    return print_module(module)


def _fusion_decisions(module: Module) -> str:
    context = PassContext(debug=1, to_text=print_module)
    run_passes(Pipeline("fusion", (fusion,)), module, context)
    return "\n".join(map(str, context.remarks))


def _buffer_assignment(module: Module) -> str:
    return assignment_text(prepare(module))


def _program_of_one_device(module: Module) -> str:
    partition(module, grid_of(module).partitions)
    verify(module)
    return print_module(module)


_PASSES = (
    *passes_of(SIMPLIFICATION),
    while_loop_trip_count_annotator,
    exact_boundary,
    attention_fusion,
    change_op_data_type,
    double_loops,
)
_STEPS: dict[str, Pass | Pipeline] = {step.name: step for step in _PASSES}
_STEPS["simplify"] = SIMPLIFICATION
_TEXTS: dict[str, Callable[[Module], str]] = {
    **{name: partial(_after, step) for name, step in _STEPS.items()},
    "fusion": _fusion_decisions,
    "buffers": _buffer_assignment,
    "spmd": _program_of_one_device,
}
_FILES = sorted(path for path in _HERE.glob("*/*.hlo") if path.parent.name in _TEXTS)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pass_makes_the_expected_text(path: Path, request: pytest.FixtureRequest) -> None:
    source = expectation(path)[0]
    check_expected(path, _TEXTS[path.parent.name](parse(source, str(path))), request)


def test_every_pass_has_a_text() -> None:
    # Random bits are hundreds of instructions that nobody reads: `test_rng_bits.py` compares bits.
    assert {path.parent.name for path in _FILES} == set(_TEXTS) - {"rng-bit-generator-expander"}


def test_a_partial_match_takes_every_line_of_the_pattern(tmp_path: Path) -> None:
    path = tmp_path / "part.hlo"
    path.write_text("HloModule m\n// about all-reduce\n// EXPECT LINES all-re\nall-reduce(x)\n")
    source, mark, pattern, expected = expectation(path)
    assert (source, pattern) == ("HloModule m\n// about all-reduce\n", "all-re")
    assert source + mark + expected == path.read_text()
    assert shown("add\nall-reduce(x)\n", pattern) == expected
    assert shown("all-reduce(x)\nall-reduce(y)\n", pattern) != expected
    assert shown("add\n", "") == "add\n"
