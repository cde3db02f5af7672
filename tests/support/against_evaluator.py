"""Compiled programs beside the evaluator, on random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.module import Module
from ingot.llvm.target import TargetSpec


def agrees(module: Module, tolerance: float, level: str = "") -> None:
    """Assert that a compiled module is right; `tolerance` is relative to the largest result.

    `level`: an x86-64 level to compile for ("avx2"), else the host.
    """
    generator = np.random.default_rng(0)
    inputs = [
        generator.standard_normal(item.shape.dims).astype(item.shape.dtype.numpy)
        for item in module.entry.parameters
    ]
    wanted: Any = evaluate(module, inputs)
    found = ingot.compile(module, target=TargetSpec.host(level or None))(*inputs)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())
