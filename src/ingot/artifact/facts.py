# SPDX-License-Identifier: Apache-2.0
"""What callers ask of a compiled program beside running it, as plain data.

It is stored with the program, so that a host that loads one needs no part of the compiler.
"""

from __future__ import annotations

from typing import TypeAlias

from ingot.hlo.dim import Dim
from ingot.support.records import record

Size: TypeAlias = int | Dim


@record
class MemoryAnalysis:
    """The memory of one execution, in bytes; field names are those of XLA's CompiledMemoryStats.

    Attributes:
        generated_code_size_in_bytes: machine code.
        argument_size_in_bytes: all arguments.
        output_size_in_bytes: all results.
        alias_size_in_bytes: results that may take the memory of a donated argument.
        temp_size_in_bytes: the arena for temporaries.
        peak_memory_in_bytes: arguments, results and temporaries, with aliases counted once.
    """

    generated_code_size_in_bytes: int
    argument_size_in_bytes: Size
    output_size_in_bytes: Size
    alias_size_in_bytes: Size
    temp_size_in_bytes: Size
    peak_memory_in_bytes: Size


@record
class Facts:
    """Facts about a program.

    Attributes:
        name: that of the module.
        instructions: their number after the passes.
        devices: replicas and partitions.
        costs: of one execution, by XLA's names; floats, or expressions of symbolic sizes.
        memory: of one execution.
    """

    name: str
    instructions: int
    devices: tuple[int, int]
    costs: dict[str, float | Dim]
    memory: MemoryAnalysis
