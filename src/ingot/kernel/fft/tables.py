# SPDX-License-Identifier: Apache-2.0
"""Tables of roots of unity that the steps of FFTs read: made by NumPy, found by address in env.

Megabytes of numbers neither go through LLVM nor into the object cache. Invariant: a name says all
that its contents depend on; all are those of forward transforms, unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ingot.hlo.dim import ceil_div
from ingot.kernel.fft.build import FINE
from ingot.llvm.machine_model import LINE_BYTES
from ingot.support.recent import RecentTable

Numbers = np.ndarray[Any, Any]

FEW = 1024
"""Roots that are computed one by one, and size of the table of the finest ones."""

CACHE_BYTES = 32 << 20
"""Tables that stay while no program uses them."""

_cache = RecentTable[tuple[str, tuple[int, ...], bool], Numbers](most=CACHE_BYTES)


def table(name: str, sizes: tuple[int, ...], single: bool) -> Numbers:
    """Return the table `TABLES[name](*sizes)` in single or double precision.

    Complex numbers lie as (real, imaginary).
    """
    key = (name, sizes, single)
    found = _cache.find(key)
    if found is None:
        found = _made(name, sizes, single)
        found = _cache.keep(key, found, found.nbytes)
    return found


def _made(name: str, sizes: tuple[int, ...], single: bool) -> Numbers:
    numbers = TABLES[name](*sizes)
    if np.iscomplexobj(numbers):
        storage = np.dtype(np.complex64 if single else np.complex128)
    else:
        storage = np.dtype(np.float32 if single else np.float64)
    memory = np.empty(numbers.size * storage.itemsize + LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    found = memory[start : start + numbers.size * storage.itemsize].view(storage)
    found[:] = numbers.reshape(-1)
    return found


def roots(order: int, numbers: Numbers) -> Numbers:
    """Return exp(-2 pi i k / order) for each k in `numbers`.

    Many roots are products of two out of small tables, in a tenth of the time of exponentials.
    """
    part = numbers % order
    if part.size <= FEW:
        return _roots(order, part)
    low = _roots(order, np.arange(FEW))
    high = _roots(order, np.arange(0, order, FEW))
    return high[part // FEW] * low[part % FEW]


def _roots(order: int, part: Numbers) -> Numbers:
    found = np.exp(-2j * np.pi * (part / order))
    # Pi is not exact: quarters of a turn would be a little off the axes. Their zeros are positive.
    return np.where(4 * part % order, found, np.round(found) + 0)


def pass_twiddles(order: int, radix: int) -> Numbers:
    """Return w^(p*j) for p < order/radix and 0 < j < radix, w of the given order."""
    products = np.arange(order // radix)[:, None] * np.arange(1, radix)[None, :]
    return roots(order, products)


def grid(rows: int, step: int, length: int, columns: int, lanes: int) -> Numbers:
    """Return w^(k*step*j) for k < rows and each column j, w of order length * columns.

    For each block of `lanes` columns, for each row: the real parts, then the imaginary ones.
    """
    blocks = ceil_div(columns, lanes)
    products = np.arange(0, rows * step, step)[:, None] * np.arange(blocks * lanes)[None, :]
    numbers = roots(length * columns, products).reshape(rows, blocks, lanes)
    return np.stack((numbers.real, numbers.imag), 2).transpose(1, 0, 2, 3)


def fold_twiddles(half: int, inverse: int) -> Numbers:
    """Return exp(-2 pi i k / (2 half)) for k <= half; conjugated for an inverse."""
    return _conjugated(roots(2 * half, np.arange(half + 1)), inverse)


def fold_low(half: int, inverse: int, lanes: int) -> Numbers:
    """Return the first `FINE + lanes` elements of `fold_twiddles`; vectors have `lanes` elements.

    Products with `fold_high` replace all of its `half + 1` elements.
    """
    return _conjugated(roots(2 * half, np.arange(FINE + lanes)), inverse)


def fold_high(half: int, inverse: int) -> Numbers:
    """Return every `FINE`-th of `fold_twiddles`."""
    return _conjugated(roots(2 * half, np.arange(0, half + 1, FINE)), inverse)


def _conjugated(numbers: Numbers, inverse: int) -> Numbers:
    return numbers.conj() if inverse else numbers


def chirp(length: int) -> Numbers:
    """Return exp(-pi i k^2 / length) for k < length."""
    k = np.arange(length, dtype=np.int64)
    return roots(2 * length, k * k)


def chirp_spectrum(length: int, padded: int) -> Numbers:
    """Return the transform over `padded` elements of the conjugated chirp, over `padded`.

    All conjugated, for the product with the conjugate before the transform back.
    """
    kernel = np.zeros(padded, np.complex128)
    conjugated = chirp(length).conj()
    kernel[:length] = conjugated
    kernel[padded - length + 1 :] = conjugated[:0:-1]
    return (np.fft.fft(kernel) / padded).conj()


TABLES: Mapping[str, Callable[..., Numbers]] = {
    make.__name__: make
    for make in (pass_twiddles, grid, fold_twiddles, fold_low, fold_high, chirp, chirp_spectrum)
}
