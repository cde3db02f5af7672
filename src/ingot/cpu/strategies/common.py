# SPDX-License-Identifier: Apache-2.0
"""What `ingot warmup` loads of the library ahead: the parts that common kernels need."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ingot.cpu.library.parts import LibraryPart
from ingot.cpu.library.subroutines import common_subroutines, common_transposes
from ingot.cpu.strategies.convolutions import common_convolutions
from ingot.cpu.strategies.generic_kernels import common_box_copies
from ingot.cpu.strategies.products import common_products
from ingot.cpu.strategies.samples import common_folds, common_generic_kernels
from ingot.cpu.strategies.selections import common_selections
from ingot.cpu.strategies.sorts import common_sorts
from ingot.cpu.strategies.transforms import common_transforms
from ingot.llvm.target import TargetSpec

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
