# SPDX-License-Identifier: Apache-2.0
"""ptxas takes the PTX of every strategy, on every machine, and spills no register.

Needs the wheel `nvidia-cuda-nvcc` (the dev extra), no GPU.
"""

from __future__ import annotations

from typing import get_args

import pytest
from tests.gpu.kernels import KERNELS
from tests.gpu.programs import COMPUTATIONS, program
from tests.gpu.ptxas import assemble, find_ptxas

import ingot
from ingot.formats.hlo_text import parse_hlo
from ingot.gpu.compiler import compile_kernel
from ingot.gpu.kernels import text_of
from ingot.gpu.machine import DEFAULT, MACHINES, machine_of
from ingot.gpu.schedule.decide import STRATEGIES, schedule_kernel
from ingot.gpu.schedule.strategies import Strategy

needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed: pip install nvidia-cuda-nvcc"
)

MOST_REGISTERS = 128
"""So that two blocks of 256 threads fit a multiprocessor."""


@needs_ptxas
@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_spills(name: str) -> None:
    kernel = compile_kernel(program(KERNELS[name].body).kernel)
    found = assemble(kernel.ptx)
    assert (found.spilled_bytes, found.stack_bytes) == (0, 0)
    assert found.registers <= MOST_REGISTERS


@needs_ptxas
@pytest.mark.parametrize("machine", [name for name in MACHINES if name != DEFAULT])
def test_every_machine(machine: str) -> None:
    body = KERNELS["softmax of a block"].body
    kernel = compile_kernel(program(body).kernel, machine_of(machine))
    assert assemble(kernel.ptx, machine).spilled_bytes == 0


@needs_ptxas
def test_sine_has_a_stack_frame_and_spills_nothing() -> None:
    # Large angles are reduced with a table that each thread indexes on its stack.
    body = "x = f32[1000] parameter(0)  ROOT r = f32[1000] sine(x)"
    found = assemble(compile_kernel(program(body).kernel).ptx)
    assert found.spilled_bytes == 0
    assert 0 < found.stack_bytes <= 256


@needs_ptxas
def test_a_whole_module_is_one_file() -> None:
    body = """x = f32[1000] parameter(0)
      y = f32[30,40] parameter(1)
      s = f32[1000] sine(x)
      z = f32[] constant(0)
      t = f32[30,40] sine(y)
      r = f32[30] reduce(t, z), dimensions={1}, to_apply=add_f32
      ROOT p = (f32[1000], f32[30]) tuple(s, r)"""
    executable = ingot.compile(parse_hlo(f"HloModule m\n{COMPUTATIONS}\nENTRY e {{ {body} }}"))
    assert isinstance(executable, ingot.Executable)
    text = text_of(executable.module, "ptx")
    assert text.count(".visible .entry") == 2
    assert text.count(".version") == 1
    assert assemble(text).spilled_bytes == 0


def test_every_strategy_has_a_kernel_here() -> None:
    stages = [
        stage
        for item in KERNELS.values()
        for stage in schedule_kernel(program(item.body).kernel, machine_of()).stages
    ]
    assert {type(stage.strategy) for stage in stages} == set(get_args(Strategy))
    assert {stage.strategy.name for stage in stages} >= {name for name, _ in STRATEGIES}
