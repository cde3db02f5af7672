# SPDX-License-Identifier: Apache-2.0
"""How the operands and the sums of a contraction kernel lie in memory.

A kernel's indices give it: which operands are loads with constant steps, and whether the sums are
the result unchanged. `rhs_placement` and `schedule` decide by it.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import PRED, DType
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import ContractionKernel
from ingot.support.records import replace

MASKED_BITS = 32
"""Elements of fewer bits have masks in vectors of 512 bits only."""

ASSUMED_EXTENT = 256
"""Stands for a symbolic extent when blocks are chosen."""


def oriented(kernel: ContractionKernel) -> ContractionKernel:
    """Return the kernel with lhs and rhs, m and n exchanged: the same sums, transposed."""
    return replace(kernel, m=kernel.n, n=kernel.m, lhs=kernel.rhs, rhs=kernel.lhs)


def has_masks(bits: int, vector_bits: int) -> bool:
    """Whether elements of `bits` bits are loaded and stored under masks in vectors."""
    return vector_bits >= 512 or (vector_bits >= 256 and bits >= MASKED_BITS)


def assumed(extent: int | Dim) -> int:
    """Return an extent, or what a symbolic one is taken for."""
    return extent if isinstance(extent, int) else ASSUMED_EXTENT


def cell_bits(accumulate: DType) -> int:
    """Return the bits of a sum in registers and buffers."""
    return max(8, accumulate.bits)


def is_plain(operand: Expr, names: tuple[str, ...], accumulate: DType) -> bool:
    """Whether an operand is a load with strides along the axes `names`, in the sum's own type.

    Sums of complex numbers need the parts in another order than operands have.
    """
    if operand.op != "load" or operand.args or operand.dtype is not accumulate:
        return False
    if accumulate is PRED or accumulate.is_complex:
        return False
    return all(stride(operand.payload.index, name) is not None for name in names)


def has_plain_lhs(kernel: ContractionKernel) -> bool:
    """Whether the lhs is read where it lies."""
    names = (kernel.m.name, kernel.k.name)
    return kernel.patches is None and is_plain(kernel.lhs, names, kernel.accumulate)


def stride(index: int | Dim, name: str) -> int | Dim | None:
    """Return the step of an index along an axis when it is the same everywhere, else None."""
    step = coefficient(index, name)
    if step is None or any(symbol[0] in "@$" for symbol in symbols_of((step,))):
        return None
    return step


def stores_sums(kernel: ContractionKernel) -> bool:
    """Whether the kernel stores its sums as they are, row by row."""
    if len(kernel.stores) != 1:
        return False
    (store,) = kernel.stores
    if store.value.op != "accumulator" or kernel.accumulate is PRED:
        return False
    return store.is_simple and _has_rows(kernel, store.index)


def _has_rows(kernel: ContractionKernel, index: int | Dim) -> bool:
    along = stride(index, kernel.n.name)
    return (along == 1 or kernel.n.extent == 1) and stride(index, kernel.m.name) is not None


def is_dense_along_k(kernel: ContractionKernel) -> bool:
    """Whether columns of the rhs can be read in vectors along k where they lie."""
    names = (kernel.n.name, kernel.k.name)
    if not is_plain(kernel.rhs, names, kernel.accumulate):
        return False
    return stride(kernel.rhs.payload.index, kernel.k.name) == 1


def unit_strides(operand: Expr, name: str) -> int:
    """Return how many loads of an operand have step 1 along an axis."""
    return sum(
        1
        for item in walk((operand,))
        if item.op == "load" and coefficient(item.payload.index, name) == 1
    )


def loaded(operand: Expr) -> Expr:
    """Return the load of an operand that is one, converted or not."""
    while operand.op == "convert":
        (operand,) = operand.args
    return operand
