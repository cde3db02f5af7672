# SPDX-License-Identifier: Apache-2.0
"""Products that a kernel stores: every kernel adds them as memory holds them, rounded.

A kernel computes a sum of a product as one operation, rounded once. A product that is also a
result reaches other kernels rounded, and so would a sum of it differ from kernel to kernel: of
`s = x*y + c`, no element need equal `max(s)`. Where a product is stored, a `reduce-precision` to
its own type therefore rounds it in every kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.opset.elementwise import ReducePrecisionAttributes
from ingot.passes.fusion.groups import Group

_MOVES = ops_with(Trait.SHAPING)
_OWN_PRECISION = {
    F32: ReducePrecisionAttributes(exponent_bits=8, mantissa_bits=23),
    F64: ReducePrecisionAttributes(exponent_bits=11, mantissa_bits=52),
}


def stored_products(groups: Iterable[Group]) -> set[Instruction]:
    """Return the products of floats whose elements are results, in whichever order."""
    found: set[Instruction] = set()
    for group in groups:
        stack = list(group.roots)
        while stack:
            value = stack.pop()
            if value.opcode in _MOVES and value in group.members:
                stack.extend(value.operands)
            elif value.opcode == "multiply" and value.shape.dtype in _OWN_PRECISION:
                found.add(value)
    return found


def may_be_added(product: Instruction, members: Collection[Instruction]) -> bool:
    """Whether a product may be an operand of a sum among the members of a kernel."""
    return any(
        user.opcode in _MOVES or (len(user.operands) > 1 and user.opcode != "multiply")
        for user in product.users
        if user in members
    )


def rounded(product: Instruction) -> Instruction:
    """Return a product as memory would hold it: an instruction of the same computation."""
    attributes = _OWN_PRECISION[product.shape.dtype]
    return product.computation.add("reduce-precision", (product,), attributes)
