# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops that a kernel of a product can end with: `ends_contraction(value)`.

Example:
    dot -> add(dot, broadcast(bias)) -> tanh: each value ends the product, if nothing else uses what
    it is made of
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with

_CONTRACTIONS = ops_with(FusionClass.CONTRACTION)
_DEPTH = 16
"""Ops through which a product is looked for."""


def ends_contraction(value: Instruction) -> bool:
    """Whether an elementwise chain leads up from `value` to a product that could take it over."""
    item: Instruction = value
    for _ in range(_DEPTH):
        if item.opcode in _CONTRACTIONS:
            return True
        chain = chain_operands(item)
        if not item.has(Trait.ELEMENTWISE) or not chain:
            return False
        item = chain[0]
    return False


def chain_operands(item: Instruction) -> list[Instruction]:
    """Return the operands of equal dimensions that only `item` uses: products, elementwise ops.

    An operand with other users is in memory, or computed for each of them.
    """
    found = [
        operand
        for operand in item.operands
        if operand.shape.dims == item.shape.dims
        and operand.use_count == 1
        and (operand.opcode in _CONTRACTIONS or operand.has(Trait.ELEMENTWISE))
    ]
    return sorted(found, key=lambda operand: operand.opcode not in _CONTRACTIONS)
