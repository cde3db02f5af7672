# SPDX-License-Identifier: Apache-2.0
"""The native functions for GPUs, linked into this process on first use."""

from __future__ import annotations

import ctypes
from functools import cache

from ingot.llvm.linking import Library, link_object
from ingot.native.module import compiled
from ingot.runtime.cuda.graph_code import GRAPH_FUNCTIONS
from ingot.runtime.cuda.hosted_code import hosted_run, hosted_sizes
from ingot.runtime.cuda.native import call, copy, cuda_stages, execute, launch, read
from ingot.runtime.cuda.shared_code import (
    shared_allocate,
    shared_fill,
    shared_free,
    shared_holds,
)

_EXPORTS = (
    *(execute, launch, copy, read, call, cuda_stages, hosted_sizes, hosted_run),
    *GRAPH_FUNCTIONS,
    *(shared_allocate, shared_free, shared_holds, shared_fill),
)


def stages_address() -> int:
    """Return the address of a GPU's functions that programs of stages call."""
    return int(cuda_functions().function("ingot_cuda_stages", ctypes.c_void_p)())


def execute_address() -> int:
    """Return the address of `execute`."""
    return cuda_functions().address("ingot_cuda_execute")


@cache
def cuda_functions() -> Library:
    """Return these functions, linked."""
    return link_object([compiled("cuda", ("artifact", "runtime"), lambda: _EXPORTS)])
