# SPDX-License-Identifier: Apache-2.0
"""A process with a GPU that is not there: `python -m tests.gpu.fake_gpu PROGRAM ARGUMENT...`.

Runs a Python file as `python PROGRAM ARGUMENT...` does, with the fake driver in place of CUDA. The
variable `FAKE_GPUS` says how many GPUs there are (default: one).
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

from tests.gpu.fake_driver import FakeDriver

import ingot.gpu.program
from ingot.llvm.target import TargetSpec
from ingot.runtime.cuda import devices
from ingot.runtime.cuda.driver import Driver


def install(gpus: int = 1, *, checks_races: bool = False) -> FakeDriver:
    """Let programs that are compiled for a GPU run under the emulation, to the process's end."""
    made = FakeDriver(memory=1 << 33, devices=gpus, checks_races=checks_races)
    driver: Driver = Driver(made)
    compile_text = ingot.gpu.program.assembly

    def assembly(text: str, target: TargetSpec) -> str:
        ptx = compile_text(text, target)
        made.sources[ptx] = text
        return ptx

    replaced: Any = ingot.gpu.program
    replaced.assembly = assembly
    known: Any = devices
    known.driver = lambda: driver
    return made


def show_to_jax() -> None:
    """Let JAX, which looks for the device files of NVIDIA's driver, find a GPU."""
    from jax._src import hardware_utils

    known: Any = hardware_utils
    known.has_visible_nvidia_gpu = lambda: True


if __name__ == "__main__":
    install(int(os.environ.get("FAKE_GPUS", "1")))
    show_to_jax()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
