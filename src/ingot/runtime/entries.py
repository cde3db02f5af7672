# SPDX-License-Identifier: Apache-2.0
"""Declarations of the runtime's functions, for native functions of other modules.

Inside the runtime's own module `allocator.allocate` and the like are called directly. Invariant:
the symbols and types are those of the exported functions; a test compares them.
"""

from __future__ import annotations

from ingot.native.functions import external
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.records import Buffers, Dims, Program, Runtime, Staged


@external("ingot_allocate")
def ingot_allocate(size: i64) -> Pointer | None:
    """Return new memory, aligned to 64 bytes, or null."""
    ...


@external("ingot_free")
def ingot_free(memory: Pointer | None) -> None:
    """Give memory back."""


@external("ingot_prepare")
def ingot_prepare(program: Program, in_dims: Dims, sizes: Array[i64]) -> i32:
    """Compute the sizes of a program; return a status."""
    ...


@external("ingot_execute")
def ingot_execute(program: Program, inputs: Buffers, outputs: Buffers, sizes: Array[i64]) -> i32:
    """Run a program; return a status."""
    ...


@external("ingot_execute_python")
def ingot_execute_python(
    program: Program, runtime: Runtime, inputs: Buffers, outputs: Buffers, sizes: Array[i64]
) -> i32:
    """Run a program for Python, without the GIL; return a status."""
    ...


@external("ingot_stages_run")
def ingot_stages_run(staged: Staged, frame: Pointer, runtime: Runtime) -> i64:
    """Run a program of stages; return 0, or what failed << 32 | its status."""
    ...
