# SPDX-License-Identifier: Apache-2.0
"""The library: code that all programs share, because it is the same at every size.

What XLA takes from precompiled libraries (Eigen, oneDNN, DUCC), Ingot emits: micro-kernels whose
strides are parameters, drivers of plain products, plain reductions, sorts, selections, moves, the
steps of Fourier transforms. Each part is compiled when it is first needed on a machine, kept on
disk by the object cache, and mapped once for all programs of a process; these refer to its
functions by name and pass numbers in env.

`MAKERS` is the table of what may run each kind of kernel: the first that can, does. `COMMON` is the
table of what `load_library` loads. Each kind has a module in this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ingot.cpu.library.drivers import (
    common_convolutions,
    common_products,
    driver_kernel,
    shared_code,
)
from ingot.cpu.library.form_kernels import common_forms
from ingot.cpu.library.moves import common_moves, moves_kernel
from ingot.cpu.library.parts import LibraryKernel, Shared, shared_addresses
from ingot.cpu.library.places import common_places, places_kernel
from ingot.cpu.library.positions import common_positions, positions_kernel
from ingot.cpu.library.reductions import common_reductions, reduction_kernel
from ingot.cpu.library.selections import common_selections, selection_kernel
from ingot.cpu.library.sorts import common_sorts, sort_kernel
from ingot.cpu.library.subroutines import common_subroutines, subroutine_part
from ingot.cpu.library.transforms import common_transforms, transform_kernel
from ingot.cpu.library.transposes import common_transposes
from ingot.kernel.ir import ContractionKernel, FftKernel, Kernel, LoopKernel, SortKernel, TopKKernel
from ingot.llvm.target import TargetSpec

__all__ = [
    "LibraryKernel", "Shared", "library_kernel", "load_library", "shared_addresses", "shared_code",
    "subroutine_part",
]  # fmt: skip

Maker = Callable[[TargetSpec, Any], LibraryKernel | None]

MAKERS: Mapping[type, tuple[Maker, ...]] = {
    LoopKernel: (driver_kernel, reduction_kernel, positions_kernel, moves_kernel, places_kernel),
    ContractionKernel: (driver_kernel,),
    SortKernel: (sort_kernel,),
    FftKernel: (transform_kernel,),
    TopKKernel: (selection_kernel,),
}

COMMON: tuple[Callable[[TargetSpec], Iterator[Shared]], ...] = (
    common_products,
    common_convolutions,
    common_reductions,
    common_selections,
    common_sorts,
    common_transforms,
    common_transposes,
    common_forms,
    common_positions,
    common_moves,
    common_places,
    common_subroutines,
)


def library_kernel(target: TargetSpec, kernel: Kernel) -> LibraryKernel | None:
    """Return how the library runs a kernel, None if it needs code of its own."""
    made = (maker(target, kernel) for maker in MAKERS.get(type(kernel), ()))
    return next((found for found in made if found is not None), None)


def load_library(target: TargetSpec) -> None:
    """Load what common kernels need: from the disk, or compiled the first time."""
    for common in COMMON:
        for _ in common(target):
            pass
