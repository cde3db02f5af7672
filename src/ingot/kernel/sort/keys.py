# SPDX-License-Identifier: Apache-2.0
"""Keys of sorts: integers in the order of the result, and what a record of a sort holds.

Serves `sort.keyed_variant` and the emitters. An element need not travel with its key if it follows
from the key: a key in total order gives its element back, bit for bit. JAX's keys treat both zeros
as one number and all NaNs as one; elements with such a key are read again, in their order.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from ingot.hlo.dtype import BF16, F32, F64, PRED, S32, S64, DType
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr


class RecordKind(Enum):
    """The record that is sorted for each element."""

    KEY_32 = "key32"
    """The key as an s32: the element follows from it."""
    KEY_64 = "key64"
    """The key as an s64, likewise."""
    WORD = "word"
    """One s64: the key above, below it the position."""
    PAIR = "pair"
    """Two s64: the key, and the position."""

    @property
    def bits(self) -> int:
        """Bits of each word."""
        return 32 if self is RecordKind.KEY_32 else 64

    @property
    def num_words(self) -> int:
        """Words of a record."""
        return 2 if self is RecordKind.PAIR else 1

    @property
    def is_key(self) -> bool:
        """Whether it holds nothing but the key."""
        return self in (RecordKind.KEY_32, RecordKind.KEY_64)


_BITS = {F32: S32, F64: S64}
"""Floats whose keys are made of their bits by ops of the program, with the integers of these."""


def shared_keys(key: Expr, element: DType) -> tuple[int, ...] | None:
    """Return the keys that several values of `element` have; None if they cannot be told from keys.

    Args:
        key: the compared expression, over argument 0 of type `element`.
        element: element type of the operand.

    Returns:
        The keys as signed numbers, in the order of the result; () if keys stand for one value each.
    """
    given = ex.argument(0, element)
    if key is given:
        # F16C makes other NaNs of some NaNs, so f16 does not come back as it was.
        is_exact = element.is_integer or element in (PRED, F32, F64, BF16)
        return () if is_exact else None
    if element not in _BITS:
        return None
    if key is total_order(given):
        return ()
    if key is total_order(one_zero_one_nan(given)):
        return (0, int(np.asarray(np.nan, element.numpy).view(_BITS[element].numpy)))
    return None


def one_zero_one_nan(number: Expr) -> Expr:
    """Return a float with signed zeros made one number, and all NaNs: how JAX sorts."""
    zero, nan = (ex.scalar(value, number.dtype) for value in (0, np.nan))
    positive = ex.select(ex.compare("EQ", number, zero), zero, number)
    return ex.select(ex.compare("NE", number, number), nan, positive)


def total_order(number: Expr) -> Expr:
    """Return the integer that `passes.expand` compares for a float in total order."""
    return _flipped(ex.as_bits(number, _BITS[number.dtype]))


def from_total_order(key: Expr, element: DType) -> Expr:
    """Return the float of type `element` that `total_order` makes `key` of."""
    return ex.as_bits(_flipped(key), element)


def _flipped(bits: Expr) -> Expr:
    """Return bits of floats with all but the sign inverted in negative ones; its own inverse."""
    whole = bits.dtype
    zero, most = ex.scalar(0, whole), ex.scalar(np.iinfo(whole.numpy).max, whole)
    return ex.select(ex.compare("LT", bits, zero), ex.compute("xor", bits, most), bits)
