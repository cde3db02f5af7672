# SPDX-License-Identifier: Apache-2.0
"""Every strategy on a device, where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.device import run
from tests.gpu.kernels import KERNELS
from tests.gpu.programs import arguments, check_result, memory_of, program, wanted_of

from ingot.gpu.compiler import compile_kernel


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_a_device_gives_what_the_evaluator_gives(name: str) -> None:
    case = KERNELS[name]
    given = program(case.body)
    inputs = arguments(given, {}, 20)
    wanted = wanted_of(given, inputs)
    found = run(compile_kernel(given.kernel), memory_of(given, inputs, wanted), {})
    for one, other in zip(found[len(inputs) :], wanted, strict=True):
        check_result(one, np.asarray(other), case.tolerance)
