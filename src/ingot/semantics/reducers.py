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
    is_pair = len(reducer.parameters) == 2 and reducer.root.shape.is_array
    return reducer_opcodes(reducer)[0] if is_pair else ""


def reducer_opcodes(reducer: Computation) -> tuple[str, ...]:
    """Return for each value of a reducer the one commutative op that folds it alone, or ""."""
    root, count = reducer.root, len(reducer.parameters) // 2
    roots = root.operands if root.opcode == "tuple" else (root,) * count
    pairs = zip(reducer.parameters[:count], reducer.parameters[count:], strict=True)
    return tuple(
        one.opcode if one.has(Trait.COMMUTATIVE) and set(one.operands) == set(pair) else ""
        for one, pair in zip(roots, pairs, strict=True)
    )


def is_identity(start: Instruction, opcode: str) -> bool:
    """Whether an initial value changes nothing under `opcode`."""
    value = splat_of(start)
    return value is not None and bool(value == identity_of(opcode, start.shape.dtype))
