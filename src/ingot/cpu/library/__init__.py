# SPDX-License-Identifier: Apache-2.0
"""The library: code that all programs share, because it is the same at every size.

What XLA takes from precompiled libraries (Eigen, oneDNN, DUCC), Ingot emits: micro-kernels whose
strides are parameters, drivers of plain products, plain reductions, sorts, selections, moves, the
steps of Fourier transforms. Each part is compiled when it is first needed on a machine, kept on
disk by the object cache, and mapped once for all programs of a process; these refer to its
functions by name and pass numbers in env.

What runs in it is decided by strategies (`cpu.strategies.table`): each module of this package has
the matcher of its own kind of kernels. `common` is the table of what `load_library` loads.
"""

from __future__ import annotations

from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part, shared_addresses
from ingot.cpu.library.subroutines import subroutine_part

__all__ = [
    "LibraryKernel", "LibraryPart", "library_part", "shared_addresses", "subroutine_part",
]  # fmt: skip
