# SPDX-License-Identifier: Apache-2.0
"""The older form of dynamic slices: one vector of indices instead of a scalar per dimension.

XLA reads both and splits the vector first (its dynamic-index-splitter). Ingot has one form after
reading: the readers of HLO text and of protos call this, so no pass, kernel or evaluator rule sees
a vector.

Source: xla/hlo/transforms/expanders/dynamic_index_splitter.cc.
"""

from __future__ import annotations

from typing import Any

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.names import unique_name
from ingot.hlo.opdef import NO_ATTRIBUTES, find
from ingot.hlo.opset.shaping import SliceAttributes
from ingot.hlo.shape import Shape

INDEXED = {"dynamic-slice": 1, "dynamic-update-slice": 2}
"""Opcode -> number of the first operand that is an index."""


def one_index_per_dimension(
    computation: Computation, opcode: str, operands: tuple[Instruction, ...]
) -> tuple[Instruction, ...]:
    """Return the operands with an index vector split, the others unchanged."""
    first = INDEXED[opcode]
    if len(operands) != first + 1 or operands[first].shape.rank != 1:
        return operands
    vector = operands[first]
    return (*operands[:first], *(_element(computation, vector, n) for n in range(_length(vector))))


def _length(vector: Instruction) -> int:
    (length,) = vector.shape.static_dims
    return length


def _element(computation: Computation, vector: Instruction, number: int) -> Instruction:
    element = vector.shape.dtype
    limits = SliceAttributes(((number, number + 1, 1),))
    part = _inserted(computation, vector, "slice", Shape.array(element, (1,)), limits)
    return _inserted(computation, part, "reshape", Shape.array(element, ()), NO_ATTRIBUTES)


def _inserted(
    computation: Computation, operand: Instruction, opcode: str, shape: Shape, attributes: Any
) -> Instruction:
    module = computation.module
    # Before a module takes the computation in, names need not be unique.
    name = opcode if module is None else unique_name(module.names, opcode)
    return computation.insert(Instruction(name, find(opcode), (operand,), shape, attributes))
