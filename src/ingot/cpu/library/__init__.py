# SPDX-License-Identifier: Apache-2.0
"""The library: code that all programs share, because it is the same at every size.

What XLA takes from precompiled libraries (Eigen, oneDNN, DUCC), Ingot emits: micro-kernels whose
strides are parameters, drivers of plain products, plain reductions, sorts, selections, moves, the
steps of Fourier transforms. Each part is compiled when it is first needed on a machine, kept on
disk by the object cache, and mapped once for all programs of a process; these refer to its
functions by name and pass numbers in env.

What runs in it is decided by strategies (`cpu.strategies.table`): each module of this package has
the matcher of its own kind of kernels. `COMMON` is the table of what `load_library` loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ingot.cpu.library.box_copies import common_box_copies
from ingot.cpu.library.drivers import common_convolutions, common_products
from ingot.cpu.library.generic_kernels import common_folds, common_generic_kernels
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part, shared_addresses
from ingot.cpu.library.selections import common_selections
from ingot.cpu.library.sorts import common_sorts
from ingot.cpu.library.subroutines import common_subroutines, subroutine_part
from ingot.cpu.library.transforms import common_transforms
from ingot.cpu.library.transposes import common_transposes
from ingot.llvm.target import TargetSpec

__all__ = [
    "LibraryKernel", "LibraryPart", "library_part", "load_library", "shared_addresses",
    "subroutine_part",
]  # fmt: skip

COMMON: tuple[Callable[[TargetSpec], Iterator[LibraryPart]], ...] = (
    common_products,
    common_convolutions,
    common_generic_kernels,
    common_folds,
    common_selections,
    common_sorts,
    common_transforms,
    common_transposes,
    common_box_copies,
    common_subroutines,
)


def load_library(target: TargetSpec) -> None:
    """Load what common kernels need: from the disk, or compiled the first time."""
    for part in [part for common in COMMON for part in common(target)]:
        part.mapped.result()
