# SPDX-License-Identifier: Apache-2.0
"""`tests/passes/<pass>/*.hlo`: a module, and beside it the text that one pass must make of it.

A file holds a module and, after the line `// EXPECT`, the expected text. `pytest tests/passes
--bless` writes what the pass gives now; look at the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.rewrite.pass_base import Pass, PassContext, Pipeline, passes_of
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.simplify.pipeline import SIMPLIFICATION

_HERE = Path(__file__).parent
_MARK = "// EXPECT\n"
_STEPS: dict[str, Pass | Pipeline] = {step.name: step for step in passes_of(SIMPLIFICATION)}
_STEPS["simplify"] = SIMPLIFICATION
_FILES = sorted(path for path in _HERE.glob("*/*.hlo") if path.parent.name in _STEPS)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pass_makes_the_expected_text(path: Path, request: pytest.FixtureRequest) -> None:
    source, _, expected = path.read_text().partition(_MARK)
    module = parse(source, str(path))
    context = PassContext(debug=1, to_text=print_module)
    run_passes(_STEPS[path.parent.name], module, context)
    actual = print_module(module).rstrip() + "\n"
    if request.config.getoption("--bless", default=False):
        path.write_text(f"{source}{_MARK}{actual}")
        return
    assert actual == expected


def test_every_pass_has_a_text() -> None:
    # Random bits are hundreds of instructions that nobody reads: `test_rng_bits.py` compares bits.
    assert {path.parent.name for path in _FILES} == set(_STEPS) - {"rng-bit-generator-expander"}
