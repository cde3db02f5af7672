"""The compiler's caches in this process, as far as users may want them empty."""

from __future__ import annotations

from ingot.cpu import library
from ingot.cpu.kernels import forget_kernels
from ingot.llvm.cache import default_cache
from ingot.llvm.target import TargetSpec


def clear_caches() -> None:
    """Forget every kernel that this process has compiled, to measure compile time.

    Executables keep working. Objects on disk stay; `INGOT_CACHE=0` turns them off. The library of
    matrix products stays too: it belongs to no program.
    """
    forget_kernels()
    default_cache().clear_memory()


def load_library() -> None:
    """Load the library of matrix products now, which the first product would else wait for.

    It comes from the disk; the first process on a machine compiles it (about 0.3 s).
    """
    library.load_library(TargetSpec.host())
