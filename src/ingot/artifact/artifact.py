# SPDX-License-Identifier: Apache-2.0
"""Artifacts: a compiled program as data, ready to be linked here or written to disk.

Compiler and runtime share nothing else. Invariant: the objects together define every symbol that
the host program calls, except those of foreign calls, which the linker of the program looks up by
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from ingot.artifact.abi import ProgramInfo
from ingot.artifact.device_code import DeviceCode
from ingot.artifact.steps import Steps
from ingot.hlo.dim import Dim
from ingot.semantics.custom_calls import CallSite
from ingot.support.records import record


@record
class Artifact:
    """A compiled program.

    Attributes:
        info: ABI description.
        target: LLVM triple and CPU that the code is for.
        host: the host program: ELF object with `<symbol>_sizes` and `<symbol>_run`, or steps.
        objects: ELF objects with the program's own kernels.
        parts: ELF objects of the library that the program uses.
        tables: numbers that kernels read, by the symbols under which the host program knows them.
        constants: the constant block.
        arena_bytes: size of the temporary arena.
        device: kernels that run on a GPU, and are in no object; None for the CPU.
        calls: foreign calls; the host program imports the code of call `n` as `call_symbol(n)`.
        has_loop: whether it may repeat work an unknown number of times.
    """

    info: ProgramInfo
    target: str
    host: bytes | Steps
    objects: tuple[bytes, ...]
    constants: bytes
    arena_bytes: int | Dim
    calls: tuple[CallSite, ...] = ()
    device: DeviceCode | None = None
    has_loop: bool = False
    parts: tuple[bytes, ...] = ()
    tables: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict[str, Any])

    @property
    def code_bytes(self) -> int:
        """Bytes of machine code, and of PTX."""
        ptx = len(self.device.ptx) if self.device is not None else 0
        return len(self.host) + sum(map(len, (*self.objects, *self.parts))) + ptx


def call_symbol(number: int) -> str:
    """Return the symbol under which the host program imports a foreign call's code."""
    return f"call_{number}"
