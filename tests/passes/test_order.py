# SPDX-License-Identifier: Apache-2.0
"""Each pipeline runs its passes in an order that obeys the constraints beside it."""

from __future__ import annotations

import pytest

from ingot.cpu import pipeline as cpu
from ingot.gpu import pipeline as gpu
from ingot.hlo.rewrite.ordering import check_names, check_order, orders
from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.kernel.passes import pipeline as kernel
from ingot.passes.simplify import pipeline as simplify


@pytest.mark.parametrize(("pipeline", "text"), [
    (simplify.SIMPLIFICATION, simplify.ORDER),
    (cpu.PIPELINE, cpu.ORDER),
    (gpu.PIPELINE, gpu.ORDER),
], ids=["simplify", "cpu", "gpu"])  # fmt: skip
def test_passes_run_in_an_order_that_has_reasons(pipeline: Pipeline, text: str) -> None:
    constraints = orders(text)
    assert constraints
    check_order(pipeline, constraints)


def test_kernel_passes_run_in_an_order_that_has_reasons() -> None:
    check_names("kernel", [item.name for item in kernel.KERNEL_PASSES], orders(kernel.ORDER))
