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
from ingot.gpu.schedule.strategies import Strategy, TensorCores, TiledContraction

needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed: pip install nvidia-cuda-nvcc"
)

MOST_REGISTERS = 128
"""So that two blocks of 256 threads fit a multiprocessor."""

MOST_OF_TILES = 255
"""Of products: a thread has up to 64 sums and the operands of the next tile. A block of 256 threads
then fills a multiprocessor; its own products hide its loads. No thread has more registers."""

PRODUCTS = (TensorCores.name, TiledContraction.name)


@needs_ptxas
@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_spills(name: str) -> None:
    kernel = compile_kernel(program(KERNELS[name].body).kernel)
    found = assemble(kernel.ptx)
    assert (found.spilled_bytes, found.stack_bytes) == (0, 0)
    has_tiles = any(name in kernel.kernel.strategy for name in PRODUCTS)
    assert found.registers <= (MOST_OF_TILES if has_tiles else MOST_REGISTERS)


@needs_ptxas
@pytest.mark.parametrize("name", ["softmax of a block", "matmul of bf16"])
@pytest.mark.parametrize("machine", [name for name in MACHINES if name != DEFAULT])
def test_every_machine(machine: str, name: str) -> None:
    body = KERNELS[name].body
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
    schedules = [
        schedule_kernel(program(item.body).kernel, machine_of()) for item in KERNELS.values()
    ]
    stages = [stage for schedule in schedules for stage in schedule.stages]
    assert {type(stage.strategy) for stage in stages} == set(get_args(Strategy))
    # The one that takes a kernel comes behind all that refused it.
    found = {STRATEGIES[len(schedule.refused)][0] for schedule in schedules}
    assert found == {name for name, _ in STRATEGIES}
