# SPDX-License-Identifier: Apache-2.0
"""Applies a scalar computation at every element, for reduce, map, scatter and sort.

A computation made of elementwise ops alone (and calls of such) means the same on arrays as on
scalars, so NumPy applies it to all elements at once; any other is called once per element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import bits_of, from_bits
from ingot.evaluator.registry import Array, Context, rule_of
from ingot.hlo.computation import Computation, reached
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.support.trampoline import Recursion

_BITS = ("bitcast-convert", "bitcast")
_PLAIN = ops_with(Trait.ELEMENTWISE, Trait.LEAF, Trait.TUPLE, also=("call",))


def is_pointwise(computation: Computation) -> bool:
    """Whether the computation has only elementwise ops, constants, flat tuples and such calls."""
    return all(
        instruction.opcode in _PLAIN
        or (instruction.opcode in _BITS and _is_scalar_step(instruction))
        for one in reached(computation)
        for instruction in one.instructions
    )


def _is_scalar_step(instruction: Instruction) -> bool:
    return instruction.shape.is_scalar and instruction.operands[0].shape.is_scalar


def apply(
    computation: Computation, arguments: Sequence[Array], context: Context
) -> Recursion[tuple[Array, ...]]:
    """Return the results of the computation at every element of equally shaped arrays."""
    dims = arguments[0].shape
    if is_pointwise(computation):
        found: tuple[Array, ...] = yield _on_arrays(computation, arguments, context)
    else:
        found = yield from _by_element(computation, arguments, context)
    return tuple(np.broadcast_to(value, dims) for value in found)


def _on_arrays(
    computation: Computation, arguments: Sequence[Array], context: Context
) -> Recursion[tuple[Array, ...]]:
    values: dict[Instruction, Any] = dict(zip(computation.parameters, arguments, strict=True))
    for instruction in computation.post_order():
        if instruction not in values:
            operands = [values[operand] for operand in instruction.operands]
            values[instruction] = yield from _value_on_arrays(instruction, operands, context)
    return _as_tuple(values[computation.root])


def _value_on_arrays(
    instruction: Instruction, operands: list[Any], context: Context
) -> Recursion[Any]:
    if instruction.opcode == "call":
        found = yield _on_arrays(instruction.attributes.to_apply, operands, context)
        return found if instruction.shape.is_tuple else found[0]
    if instruction.opcode in _BITS:
        (value,) = operands
        return from_bits(bits_of(value), instruction.shape.dtype)
    return rule_of(instruction)(instruction, operands, context)


def _by_element(
    computation: Computation, arguments: Sequence[Array], context: Context
) -> Recursion[tuple[Array, ...]]:
    result = computation.root.shape
    elements = result.parts
    outputs = tuple(np.empty(arguments[0].shape, e.dtype.numpy) for e in elements)
    for index in np.ndindex(arguments[0].shape):
        found = yield context.call(computation, [np.asarray(a[index]) for a in arguments], context)
        for output, value in zip(outputs, _as_tuple(found), strict=True):
            output[index] = value
    return outputs


def _as_tuple(value: Any) -> tuple[Array, ...]:
    return value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]
