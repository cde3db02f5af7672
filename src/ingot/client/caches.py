# SPDX-License-Identifier: Apache-2.0
"""The compiler's caches in this process: emptying and filling them."""

from __future__ import annotations

from ingot.client import shared
from ingot.llvm.cache import default_cache
from ingot.llvm.target import TargetSpec


def clear_caches() -> None:
    """Drop every program and kernel that this process has cached, to measure compile time.

    Executables keep working. Objects on disk stay; `INGOT_CACHE=0` turns them off. The library
    stays too: it belongs to no program.
    """
    from ingot.cpu.kernels import forget_kernels

    shared.forget()
    forget_kernels()
    default_cache().clear_memory()


def load_library() -> None:
    """Load the code that products, reductions, sorts and transforms share (`ingot.cpu.library`).

    Otherwise the first program that needs a part loads it. It comes from the disk; the first
    process on a machine compiles it (about 2.5 s on one CPU).
    """
    from ingot.cpu.strategies import common

    common.load_library(TargetSpec.host())
