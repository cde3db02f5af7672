# SPDX-License-Identifier: Apache-2.0
"""No kernel has a race: every strategy with shadow memory, and bugs that it must find."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.kernels import KERNELS
from tests.gpu.programs import arguments, memory_of, program, wanted_of
from tests.gpu.simt import EmulatedModule, Emulation, RaceError

from ingot.gpu.compiler import compile_kernel

BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"


def _check_races(name: str, drop: int | None = None) -> None:
    """Run a kernel with checks; without its barrier number `drop` if that is given."""
    given = program(KERNELS[name].body)
    inputs = arguments(given, {}, 20)
    compiled = compile_kernel(given.kernel)
    text = compiled.llvm_ir
    if drop is not None:
        parts = text.split(BARRIER)
        text = (
            BARRIER.join(parts[: drop + 1]) + BARRIER.join(["", *parts[drop + 1 :]])[len(BARRIER) :]
        )
    memory = memory_of(given, inputs, wanted_of(given, inputs))
    Emulation(compiled, text, checks_races=True).run(memory, {}, 0)


@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_has_a_race(name: str) -> None:
    _check_races(name)


@pytest.mark.parametrize("name", ["transpose", "softmax of a block", "matmul"])
def test_a_missing_barrier_is_a_race(name: str) -> None:
    with pytest.raises(RaceError, match="races, the first of"):
        _check_races(name, 0)


WRITERS = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @writers(ptr addrspace(1) %b0) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %sum = add i32 %thread, %block
  store i32 %sum, ptr addrspace(1) %b0, align 4
  ret void
}
"""


def test_two_writers_of_one_element_are_a_race() -> None:
    memory = np.zeros(1, np.int32)
    module = EmulatedModule(WRITERS, checks_races=True)
    module.launch("writers", [memory.ctypes.data], (1, 1), np.random.default_rng(0))
    for grid in ((1, 2), (2, 1)):
        with pytest.raises(RaceError):
            module.launch("writers", [memory.ctypes.data], grid, np.random.default_rng(0))
