# SPDX-License-Identifier: Apache-2.0
"""Artifacts: a compiled program as data, ready to be linked here or written to disk.

Compiler and runtime share nothing else. Invariant: the objects together define every symbol that
the host program calls, but for those of foreign calls, which whoever links looks up by name.
"""

from __future__ import annotations

from ingot.artifact.abi import ProgramInfo
from ingot.artifact.steps import Steps
from ingot.hlo.custom_calls import CallSite
from ingot.hlo.dim import Dim
from ingot.support.records import record


@record
class KernelInfo:
    """What one kernel of a program is and where it comes from.

    Attributes:
        name: symbol, `k_` and a fingerprint; equal kernels have one name.
        fusion: name of the fusion instruction that calls it.
        kind: XLA's fusion kind.
        instructions: names of the HLO instructions inside.
        opcodes: their opcodes.
        lines: the user's file:line of each instruction that has one, without repeats.
        bytes_read, bytes_written: memory traffic per call in bytes.
        flops: arithmetic operations per call.
        transcendentals: how many of these are exponentials, divisions and the like.
        bound: what limits it by the model of the machine (`llvm.machine_model`): "memory",
            "compute" or "latency"; empty where that depends on symbolic sizes.
        strategy: how it runs: "square tiles", "Winograd convolution", ...
        refused: (strategy, reason) of each that comes before it and does not take the kernel.
    """

    name: str
    fusion: str
    kind: str
    instructions: tuple[str, ...]
    opcodes: tuple[str, ...]
    lines: tuple[str, ...]
    bytes_read: int | Dim
    bytes_written: int | Dim
    flops: int | Dim
    transcendentals: int | Dim
    bound: str
    strategy: str
    refused: tuple[tuple[str, str], ...] = ()


@record
class Artifact:
    """A compiled program.

    Attributes:
        info: ABI description.
        target: LLVM triple and CPU that the code is for.
        host: the host program: ELF object with `<symbol>_sizes` and `<symbol>_run`, or steps.
        objects: ELF objects with the kernels.
        constants: the constant block.
        kernels: one row per kernel call site, in schedule order.
        arena_bytes: size of the temporary arena.
        calls: foreign calls; the host program imports the code of call `n` as `call_symbol(n)`.
    """

    info: ProgramInfo
    target: str
    host: bytes | Steps
    objects: tuple[bytes, ...]
    constants: bytes
    kernels: tuple[KernelInfo, ...]
    arena_bytes: int | Dim
    calls: tuple[CallSite, ...] = ()


def call_symbol(number: int) -> str:
    """Return the symbol under which the host program imports a foreign call's code."""
    return f"call_{number}"
