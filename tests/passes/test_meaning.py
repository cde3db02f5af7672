# SPDX-License-Identifier: Apache-2.0
"""Every pass, and the whole pipeline, keeps the evaluator's meaning on random modules."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.random_modules import random_module

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import print_module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import Pass, PassContext, Pipeline, passes_of
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.simplify.pipeline import SIMPLIFICATION

pytestmark = pytest.mark.fast_share(8)

_STEPS: dict[str, Pass | Pipeline] = {step.name: step for step in passes_of(SIMPLIFICATION)}


def check(step: Pass | Pipeline, seed: int, fp: Fp) -> int:
    """Run a step on a random module and compare; return how many instructions went."""
    module, inputs = random_module(seed, steps=16)
    before = module.clone()
    run_passes(step, module, PassContext(fp=fp, debug=1, to_text=print_module))
    with np.errstate(all="ignore"):
        wanted, actual = evaluate(before, inputs), evaluate(module, inputs)
    assert isinstance(wanted, tuple)
    assert isinstance(actual, tuple)
    for number, (left, right) in enumerate(zip(wanted, actual, strict=True)):
        what = f"seed {seed}, result {number}"
        assert np.shape(left) == np.shape(right), what
        if fp is Fp.EXACT or np.asarray(left).dtype.kind != "f":
            np.testing.assert_array_equal(right, left, what)
        else:
            scale = np.max(np.abs(left), initial=1.0, where=np.isfinite(left))
            np.testing.assert_allclose(right, left, rtol=1e-4, atol=1e-5 * scale, err_msg=what)
    return before.instruction_count - module.instruction_count


@pytest.mark.parametrize("name", sorted(_STEPS))
def test_pass_keeps_meaning(name: str) -> None:
    for seed in range(12):
        check(_STEPS[name], seed, Fp.CONTRACT)


def test_pipeline_keeps_meaning_and_shrinks() -> None:
    gone = sum(check(SIMPLIFICATION, seed, Fp.CONTRACT) for seed in range(40))
    assert gone > 0


def test_exact_pipeline_keeps_every_bit() -> None:
    for seed in range(100, 120):
        check(SIMPLIFICATION, seed, Fp.EXACT)
