# SPDX-License-Identifier: Apache-2.0
"""Which products of complex matrices stay complex: the library has drivers for them.

A driver packs the right operand, so a product must be large enough for packing to pay. Others
become four products of parts.

Invariant: a product that stays has a driver: its sizes are known, its operands and result are of
one type, and fusion leaves its operands in memory (`passes.fusion.legality`).
"""

from __future__ import annotations

from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import DotAttributes

SMALLEST = 1 << 15
"""Complex multiplications from which packing the right operand pays."""

FEWEST_ROWS, FEWEST_COLUMNS = 8, 4
"""Rows and columns of the product, likewise."""


def stays_complex(instruction: Instruction) -> bool:
    """Whether an op on complex numbers is a product that the library runs."""
    if instruction.opcode != "dot" or not instruction.shape.dtype.is_complex:
        return False
    given = instruction.as_(DotAttributes)
    left, right = (operand.shape for operand in instruction.operands)
    if not left.dtype is right.dtype is instruction.shape.dtype:
        return False
    rows = product(left.dims[dim] for dim in given.lhs_free_dims(left.rank))
    columns = product(right.dims[dim] for dim in given.rhs_free_dims(right.rank))
    steps = product(left.dims[dim] for dim in given.lhs_contracting_dims)
    total = product(instruction.shape.dims) * steps
    if isinstance(total, Dim) or not given.lhs_contracting_dims:
        return False
    return (
        _is_at_least(rows, FEWEST_ROWS)
        and _is_at_least(columns, FEWEST_COLUMNS)
        and (total >= SMALLEST)
    )


def _is_at_least(size: int | Dim, least: int) -> bool:
    return isinstance(size, int) and size >= least
