# SPDX-License-Identifier: Apache-2.0
"""Products of words: one instruction adds two or four products of neighbours to each sum.

Used by `microkernel` and `dot_products`; `product.word_packing` makes them. Invariant: integers are
exact, sums wrap around; each product of bf16 is added as by an fma, but a denormal counts as
zero.
"""

from __future__ import annotations

from ingot.hlo.dtype import S8, S16
from ingot.kernel.product.variant import WORD_BYTES
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value

WORD_BITS = 8 * WORD_BYTES

ADD_PAIRS = {
    128: "llvm.x86.sse2.pmadd.wd",
    256: "llvm.x86.avx2.pmadd.wd",
    512: "llvm.x86.avx512.pmaddw.d.512",
}
"""The sum of two products of 16-bit integers, by the bits of a vector."""

INTEGERS = {2: S16, 4: S8}
"""The types that integers are multiplied as, by the factors of a word; signs do not matter."""

SHIFT = 0x80
"""Shifts a byte by 128 from one range to the other, by "exclusive or" with its sign bit."""


def factor_type(total: Type, factors: int) -> Type:
    """Return the type of one of `factors` factors of a word, by the type of the sums."""
    return lt.BF16 if total.is_float else {2: lt.I16, 4: lt.I8}[factors]


def add_words(
    f: FunctionBuilder, words: tuple[Value, Value], total: Value, factors: int, *, b_signed: bool
) -> Value:
    """Return sums and the products of the factors of each word of A and B.

    `b_signed`: whether bytes of B are signed; bytes of A are signed if those of B are not.
    """
    wide = total.type
    parts = vector(factor_type(wide.element, factors), factors * wide.lanes)
    a, b = (f.bitcast(item, parts) for item in words)
    if wide.element.is_float:
        return f.intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{wide.bits}", wide, [total, a, b])
    if factors == len(("a", "b")):
        return f.add(total, f.intrinsic(ADD_PAIRS[wide.bits], wide, [a, b]))
    unsigned_first = [a, b] if b_signed else [b, a]
    return f.intrinsic(f"llvm.x86.avx512.vpdpbusd.{wide.bits}", wide, [total, *unsigned_first])


def add_shifts(f: FunctionBuilder, b: Value, total: Value, *, b_signed: bool) -> Value:
    """Return `total` plus the products of words of B with the shift of A's bytes, -`SHIFT` each.

    `b` are words of four bytes, one for each sum; `b_signed` as in `add_words`.
    """
    wide = total.type
    shifts = f.splat(f.const(lt.I8, SHIFT - 256), wide.lanes * 4)
    return add_words(f, (shifts, b), total, 4, b_signed=b_signed)
