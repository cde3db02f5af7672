# SPDX-License-Identifier: Apache-2.0
"""`tests/kernel/<pass>/*.kernel`: a kernel, and beside it the text that one pass must make of it.

A file holds a kernel, with a comment that says what it is about, and the kernel that the pass
leaves (`tests/expected_text.py`): the word `unchanged`, where the pass must not touch it. Both are
valid, and run by the evaluator they store the same bits.

`pytest tests/kernel --bless` writes what the passes give now; look at the difference before
committing it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.expected_text import check_expected, expectation
from tests.kernel.test_kernel_passes import memory_of

from ingot.kernel.evaluate import evaluate_kernel
from ingot.kernel.ir import LoopKernel
from ingot.kernel.parse import parse_kernel
from ingot.kernel.passes.pipeline import KERNEL_PASSES
from ingot.kernel.text import kernel_text
from ingot.kernel.verifier import verify_kernel

_HERE = Path(__file__).parent
_FILES = sorted(_HERE.glob("*/*.kernel"))
_PASSES = {item.name: item for item in KERNEL_PASSES}
_SIZES = {"n": 5, "m": 3}
UNCHANGED = "unchanged\n"


def _kernel(path: Path) -> LoopKernel:
    kernel = parse_kernel(expectation(path)[0], str(path))
    assert isinstance(kernel, LoopKernel)
    return kernel


@pytest.mark.parametrize("path", _FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_pass_makes_the_expected_text(path: Path, request: pytest.FixtureRequest) -> None:
    kernel = _kernel(path)
    made = _PASSES[path.parent.name].run(kernel)
    verify_kernel(made, path.parent.name)
    memory = memory_of(kernel, _SIZES)
    before, after = (evaluate_kernel(one, memory, _SIZES) for one in (kernel, made))
    assert [held.tobytes() for held in after] == [held.tobytes() for held in before]
    check_expected(path, UNCHANGED if made == kernel else kernel_text(made), request)


def test_every_pass_has_a_kernel_that_it_changes_and_one_that_it_does_not() -> None:
    found = {(path.parent.name, expectation(path)[3] == UNCHANGED) for path in _FILES}
    assert found == {(name, unchanged) for name in _PASSES for unchanged in (False, True)}
