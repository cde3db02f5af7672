# SPDX-License-Identifier: Apache-2.0
"""Reducers: the op of a two-parameter computation, and its identity value.

Example:
    >>> from ingot.hlo.builder import scalar_computation
    >>> reducer_opcode(scalar_computation("add", "f32"))
    'add'
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait
from ingot.hlo.rewrite.pattern import splat_of
from ingot.semantics.identities import identity_of


def reducer_opcode(reducer: Computation) -> str:
    """Return the opcode of a reducer that is one commutative op of its two parameters, or ""."""
    root = reducer.root
    if len(reducer.parameters) != 2 or not root.has(Trait.COMMUTATIVE) or len(root.operands) != 2:
        return ""
    return root.opcode if set(root.operands) == set(reducer.parameters) else ""


def is_identity(start: Instruction, opcode: str) -> bool:
    """Whether an initial value changes nothing under `opcode`."""
    value = splat_of(start)
    return value is not None and bool(value == identity_of(opcode, start.shape.dtype))
