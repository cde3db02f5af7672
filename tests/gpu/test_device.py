# SPDX-License-Identifier: Apache-2.0
"""Every strategy on a device, where there is one; how that is done, on the fake one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.device import run
from tests.gpu.fake_driver import FakeDriver
from tests.gpu.kernels import KERNELS
from tests.gpu.programs import arguments, check_result, memory_of, program, wanted_of

from ingot.gpu.compiler import CompiledKernel, compile_kernel

pytest_plugins = ("tests.gpu.fixtures",)


def _check(name: str, compiled: CompiledKernel) -> None:
    case = KERNELS[name]
    given = program(case.body)
    inputs = arguments(given, {}, 20)
    wanted = wanted_of(given, inputs)
    found = run(compiled, memory_of(given, inputs, wanted), {})
    for one, other in zip(found[len(inputs) :], wanted, strict=True):
        check_result(one, np.asarray(other), case.tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_a_device_gives_what_the_evaluator_gives(name: str) -> None:
    _check(name, compile_kernel(program(KERNELS[name].body).kernel))


@pytest.mark.parametrize("name", ["transpose", "scatter-add", "cumulative sum"])
def test_what_runs_kernels_on_a_device(fake: FakeDriver, name: str) -> None:
    compiled = compile_kernel(program(KERNELS[name].body).kernel)
    fake.sources[compiled.ptx] = compiled.llvm_ir
    _check(name, compiled)
