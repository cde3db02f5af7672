# SPDX-License-Identifier: Apache-2.0
"""Subroutines in library code, each a part of its own.

Those of math functions (`llvm.math.called`) are imported by kernels (`ModuleBuilder.imports`); any
other module defines those that it calls. Square transposes (`emit.values.squares`) are called by
kernels that read across their vector axis.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.template import template_of
from ingot.cpu.library.parts import LibraryPart, library_part
from ingot.emit.values.squares import SquareTranspose
from ingot.kernel.analysis.lane_counts import LANE_BITS
from ingot.llvm.builder import Subroutine
from ingot.llvm.machine_model import Vectors
from ingot.llvm.math import MATH
from ingot.llvm.math.called import RETURNED_REGISTERS
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, vector

COMMON = ("exponential", "log", "tanh", "logistic", "erf", "erfc", "power", "sine", "cosine")
"""Functions of f32 that are loaded with the library."""


def subroutine_part(target: TargetSpec, code: Subroutine) -> LibraryPart:
    """Return a subroutine's code."""
    return library_part(target, template_of(code))


def common_subroutines(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load common functions for as many lanes as kernels like best."""
    lanes = RETURNED_REGISTERS * target.vector_bits // F32.bits
    for name in COMMON:
        yield subroutine_part(target, MATH[name].subroutine(vector(F32, lanes), target.has_fma))


def common_transposes(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what transposes of f32 need."""
    side = Vectors.of(target).lanes(LANE_BITS, 1)
    if side > 1:
        yield library_part(target, template_of(SquareTranspose(F32, side)))
