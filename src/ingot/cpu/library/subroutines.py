"""Subroutines of math functions in library code: what hardly ever runs and is long.

Kernels import them (`ModuleBuilder.imports`); any other module defines those that it calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.library.drivers import shared_code
from ingot.cpu.library.parts import Shared
from ingot.llvm.math.trigonometric import large_reduction
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, F64


def common_subroutines(target: TargetSpec) -> Iterator[Shared]:
    """Load what sines, cosines and tangents of large angles need."""
    for element in (F32, F64):
        yield shared_code(target, large_reduction(element))
