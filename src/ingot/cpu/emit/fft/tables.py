"""Tables of roots of unity that FFT kernels read: made by NumPy, linked in by address.

A table is an external constant of the kernel's LLVM module, so megabytes of numbers neither go
through LLVM nor into the object cache. Invariant: a name says all that its contents depend on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import F32, Type
from ingot.llvm.values import Value

Numbers = np.ndarray[Any, Any]

FEW = 1024
"""Roots that are computed one by one, and size of the table of the finest ones."""

ALIGNMENT = 64
"""Alignment of tables in bytes; the compiler relies on it."""


class Tables:
    """The tables of one kernel, and their addresses in its module."""

    __slots__ = ("_element", "_module", "data")

    def __init__(self, module: ModuleBuilder, element: Type) -> None:
        """Collect tables of `element` (float or double) for kernels of `module`."""
        self._module = module
        self._element = element
        self.data: dict[str, Numbers] = {}

    def add(self, make: Callable[..., Numbers], *sizes: int) -> Value:
        """Return the address of `make(*sizes)`, an array of complex numbers.

        Elements lie as (real, imaginary) in the module's element type.
        """
        symbol = "_".join(["fft", self._element.suffix, make.__name__, *map(str, sizes)])
        if symbol not in self.data:
            self.data[symbol] = _rounded(make, sizes, self._element is F32)
        return self._module.global_text(symbol, f"external constant i8, align {ALIGNMENT}")


@lru_cache(maxsize=64)
def _rounded(make: Callable[..., Numbers], sizes: tuple[int, ...], single: bool) -> Numbers:
    numbers = make(*sizes)
    storage = np.dtype(np.complex64 if single else np.complex128)
    memory = np.empty(numbers.size * storage.itemsize + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    table = memory[start : start + numbers.size * storage.itemsize].view(storage)
    table[:] = numbers.reshape(-1)
    return table


def roots(order: int, numbers: Numbers, inverse: int) -> Numbers:
    """Return exp(-2 pi i k / order) for each k in `numbers`; conjugated for an inverse.

    Many are products of two roots out of small tables: a tenth of the time of so many exponentials.
    """
    part = numbers % order
    if part.size <= FEW:
        found = _roots(order, part)
    else:
        low = _roots(order, np.arange(FEW))
        high = _roots(order, np.arange(0, order, FEW))
        found = high[part // FEW] * low[part % FEW]
    return found.conj() if inverse else found


def _roots(order: int, part: Numbers) -> Numbers:
    found = np.exp(-2j * np.pi * (part / order))
    # Pi is not exact: quarters of a turn would be a little off the axes.
    return np.where(4 * part % order, found, np.round(found))


def pass_twiddles(order: int, radix: int, inverse: int) -> Numbers:
    """Return w^(p*j) for p < order/radix and 0 < j < radix, w of the given order."""
    products = np.arange(order // radix)[:, None] * np.arange(1, radix)[None, :]
    return roots(order, products, inverse)


def grid_twiddles(rows: int, columns: int, inverse: int) -> Numbers:
    """Return w^(k*j) for row k and column j, w of order rows * columns."""
    products = np.arange(rows)[:, None] * np.arange(columns)[None, :]
    return roots(rows * columns, products, inverse)


def fold_twiddles(half: int, inverse: int) -> Numbers:
    """Return exp(-2 pi i k / (2 half)) for k <= half; conjugated for an inverse."""
    return roots(2 * half, np.arange(half + 1), inverse)


def chirp(length: int, inverse: int) -> Numbers:
    """Return exp(-pi i k^2 / length) for k < length; conjugated for an inverse."""
    k = np.arange(length, dtype=np.int64)
    return roots(2 * length, k * k, inverse)


def chirp_spectrum(length: int, padded: int, inverse: int) -> Numbers:
    """Return the transform over `padded` elements of the conjugated chirp, over `padded`."""
    kernel = np.zeros(padded, np.complex128)
    conjugated = chirp(length, inverse).conj()
    kernel[:length] = conjugated
    kernel[padded - length + 1 :] = conjugated[:0:-1]
    return np.fft.fft(kernel) / padded
