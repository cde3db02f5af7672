# SPDX-License-Identifier: Apache-2.0
"""ptxas, NVIDIA's assembler, which needs no GPU: what it says of a kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ingot.gpu.machine import DEFAULT


def find_ptxas() -> str | None:
    """Return where ptxas is: of the wheel `nvidia-cuda-nvcc`, or on PATH."""
    spec = find_spec("nvidia")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        for found in sorted(Path(folder).glob("*/bin/ptxas")):
            return str(found)
    return shutil.which("ptxas")


@dataclass(frozen=True)
class Assembled:
    """What a kernel takes on the device."""

    registers: int
    spilled_bytes: int
    stack_bytes: int


def assemble(ptx: str, machine: str = DEFAULT) -> Assembled:
    """Return what ptxas makes of kernels, the most of each; an error of it is an AssertionError."""
    ptxas = find_ptxas()
    assert ptxas is not None, "ask find_ptxas first"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.ptx")
        file.write_text(ptx)
        command = [ptxas, "-v", f"-arch={machine}", str(file), "-o", str(Path(folder, "kernel"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Functions that a kernel calls have lines of their own.
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", done.stderr)))
    registers = max(map(int, re.findall(r"Used (\d+) registers", done.stderr)), default=0)
    stack = max(map(int, re.findall(r"(\d+) bytes stack frame", done.stderr)), default=0)
    return Assembled(registers, spilled, stack)
