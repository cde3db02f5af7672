# SPDX-License-Identifier: Apache-2.0
"""Kernels of random programs: the emulated GPU stores what the evaluator of kernels says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.fuzz.targets.strategy_programs import LOADED, generate
from tests.gpu.programs import array
from tests.gpu.simt import Emulation

import ingot
from ingot.formats.hlo_text import parse_hlo
from ingot.gpu.compiler import compile_kernel
from ingot.hlo.dtype import DType
from ingot.host.sites import scheduled_fusions
from ingot.kernel.evaluate import evaluate_kernel
from ingot.kernel.ir import LoopKernel
from ingot.kernel.lowering import lower_fusion

MOST_ELEMENTS = 1 << 13
"""Of the buffers of a kernel: the evaluator walks folds one element after the other."""


def kernels(seed: int) -> list[LoopKernel]:
    """Return the small loop kernels of a random program."""
    data = generate(random.Random(seed)).removeprefix(LOADED).decode()
    executable = ingot.compile(parse_hlo(data))
    assert isinstance(executable, ingot.Executable)
    fusions = scheduled_fusions(executable.module)
    found = [lower_fusion(one) for one in dict.fromkeys(f.attributes.calls for f in fusions)]
    return [
        kernel
        for kernel in found
        if isinstance(kernel, LoopKernel)
        and all(isinstance(b.size, int) and b.size <= MOST_ELEMENTS for b in kernel.buffers)
    ]


def check(kernel: LoopKernel, seed: int) -> str:
    """Check one kernel in one order; return its strategy."""
    choose = np.random.default_rng(seed)
    sizes = [b.size if isinstance(b.size, int) else 0 for b in kernel.buffers]
    memory = [
        array(choose, buffer.dtype, [size], 20)
        for buffer, size in zip(kernel.buffers, sizes, strict=True)
    ]
    wanted = evaluate_kernel(kernel, memory)
    compiled = compile_kernel(kernel)
    found = Emulation(compiled).run(memory, {}, seed)
    outputs = [held for held, b in zip(found, kernel.buffers, strict=True) if b.is_output]
    types = [b.dtype for b in kernel.buffers if b.is_output]
    for one, other, element in zip(outputs, wanted, types, strict=True):
        tolerance = _tolerance(element)
        wide = np.complex128 if element.is_complex else np.float64
        np.testing.assert_allclose(one.astype(wide), other.astype(wide), tolerance, tolerance)
    return compiled.kernel.strategy


def _tolerance(element: DType) -> float:
    """Return some units of the last place, of sums in another order."""
    if element.is_complex:
        return 1e-5
    return 64 * 2.0**-element.mantissa if element.is_float else 0.0


@pytest.mark.parametrize("seed", range(20))
def test_random_kernels(seed: int) -> None:
    for kernel in kernels(seed):
        check(kernel, seed)
