"""The compiler's caches in this process, as far as users may want them empty."""

from __future__ import annotations

from ingot.cpu.kernels import forget_kernels
from ingot.llvm.cache import default_cache


def clear_caches() -> None:
    """Forget every kernel that this process has compiled, to measure compile time.

    Executables keep working. Objects on disk stay; `INGOT_CACHE=0` turns them off.
    """
    forget_kernels()
    default_cache().clear_memory()
