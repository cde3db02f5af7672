# SPDX-License-Identifier: Apache-2.0
"""Products of pairs of 16-bit factors: what one instruction adds to each sum.

Used by `microkernel`; `pair_packing` makes the words. Invariant: integers are exact, sums wrap
around; of bf16 each product is added as by an fma, but what is denormal counts as zero.
"""

from __future__ import annotations

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value

ADD_PAIRS = {
    128: "llvm.x86.sse2.pmadd.wd",
    256: "llvm.x86.avx2.pmadd.wd",
    512: "llvm.x86.avx512.pmaddw.d.512",
}
"""The sum of two products of 16-bit integers, by the bits of a vector."""


def add_pairs(f: FunctionBuilder, a: Value, b: Value, total: Value) -> Value:
    """Return sums and the two products of each word of `a` and `b`."""
    wide = total.type
    half = lt.BF16 if wide.element.is_float else lt.I16
    halves = [f.bitcast(item, vector(half, 2 * wide.lanes)) for item in (a, b)]
    if wide.element.is_float:
        return f.intrinsic(f"llvm.x86.avx512bf16.dpbf16ps.{wide.bits}", wide, [total, *halves])
    return f.add(total, f.intrinsic(ADD_PAIRS[wide.bits], wide, halves))
