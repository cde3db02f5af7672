# SPDX-License-Identifier: Apache-2.0
"""Arrays without elements: whatever computes them, the result is empty.

The result of an op on an empty array may have elements: a fold of nothing is its initial value,
an empty array padded is the padding, a product over nothing is zero, an empty update changes
nothing, and a gather of windows of size 0 (in a dimension that the result lacks) gives zeros. So no
other pass and no kernel has to handle operands of a static size 0.

Source: xla/hlo/transforms/simplifiers/{zero_sized_hlo_elimination,gather_simplifier}.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.census import EMPTY
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.shape import Shape


@module_pass("zero-sized-hlo-elimination", EMPTY, "gather")
def zero_sized_hlo_elimination(module: Module, context: PassContext) -> bool:
    """Replaces arrays without elements, and ops on them."""
    effects: dict[Computation, bool] = {}
    changed = False
    for computation in module.post_order():
        for instruction in _concerned(computation):
            if _has_to_stay(instruction, effects):
                continue
            build = Builder(computation, instruction.metadata)
            made = _value(instruction, build)
            if made is not None:
                computation.replace(instruction, made)
                changed = True
    return changed


def _concerned(computation: Computation) -> list[Instruction]:
    """Return the ops that make or take an array without elements, or read none of its elements."""
    found: list[Instruction] = []
    empty: set[Instruction] = set()
    for instruction in computation.post_order():
        if _holds_empty(instruction.shape):
            empty.add(instruction)
            found.append(instruction)
        elif _takes_nothing(instruction) or not empty.isdisjoint(instruction.operands):
            found.append(instruction)
    return found


def _holds_empty(shape: Shape) -> bool:
    """Whether an array without elements is a leaf of a shape."""
    if shape.is_tuple:
        return any(_is_empty(leaf) for _, leaf in shape.leaves())
    return _is_empty(shape)


_LEAST = ops_with(Trait.LEAF, also=("broadcast",))


def _has_to_stay(instruction: Instruction, effects: dict[Computation, bool]) -> bool:
    """Whether an op stays as it is, because replacing it would never end."""
    shapes = (instruction.shape, *(operand.shape for operand in instruction.operands))
    return (
        any(shape.bounded for shape in shapes)
        or instruction.opcode in _LEAST
        or bool(instruction.control_predecessors)
        or not (instruction.users or instruction.is_root)
        or instruction.has(Trait.COLLECTIVE)
        or has_side_effect(instruction, effects)
    )


def _takes_nothing(op: Instruction) -> bool:
    """Whether a gather's windows are empty: it reads no element of its operand."""
    return op.opcode == "gather" and 0 in op.attributes.slice_sizes


def _is_empty(shape: Shape) -> bool:
    return shape.is_array and 0 in shape.dims


def _value(op: Instruction, build: Builder) -> Instruction | None:
    """Return the value of an op, None where that must be computed."""
    if _is_empty(op.shape):
        return build.full(0, op.shape)
    values = _VALUES.get(op.opcode)
    made = None if values is None else values(op, build)
    return None if made is None else build.value_of(made, op.shape)


Values = Callable[[Instruction, Builder], Sequence[Instruction] | None]
"""The results of an op with an empty operand or result."""


def _of_nothing(op: Instruction, build: Builder) -> Sequence[Instruction] | None:
    """Return empty results."""
    shapes = op.shape.parts
    return [build.full(0, s) for s in shapes] if all(map(_is_empty, shapes)) else None


def _folds(op: Instruction, build: Builder) -> Sequence[Instruction] | None:
    """Return the initial values where nothing is folded."""
    count = len(op.operands) // 2
    if not _is_empty(op.operands[0].shape):
        return _of_nothing(op, build)
    shapes = op.shape.parts
    starts = op.operands[count:]
    return [build.broadcast_to(i, s.dims) for i, s in zip(starts, shapes, strict=True)]


def _zeros(op: Instruction, build: Builder) -> Sequence[Instruction] | None:
    """Return zeros: a product over nothing, a gather from nothing."""
    factors = op.operands[:1] if op.opcode == "gather" else op.operands
    if not (any(_is_empty(factor.shape) for factor in factors) or _takes_nothing(op)):
        return None
    return [build.full(0, op.shape)]


def _padding(op: Instruction, build: Builder) -> Sequence[Instruction] | None:
    """Return the padding where there is nothing to pad."""
    return [build.broadcast_to(op.operands[1], op.shape.dims)]


def _chosen(op: Instruction, build: Builder) -> Sequence[Instruction] | None:
    """Return the initial value where nothing is scattered."""
    return [build.broadcast_to(op.operands[2], op.shape.dims)]


def _updated(op: Instruction, build: Builder) -> Sequence[Instruction] | None:
    """Return the updated operand where there is no update."""
    return [op.operands[0]] if _is_empty(op.operands[1].shape) else None


def _scattered(op: Instruction, build: Builder) -> Sequence[Instruction] | None:
    """Return the operand that is scattered into where there is no update."""
    count = len(op.operands) // 2
    nothing = _is_empty(op.operands[-1].shape) or _is_empty(op.operands[0].shape)
    return op.operands[:count] if nothing else None


_VALUES: Mapping[str, Values] = {
    "convolution": _zeros,
    "dot": _zeros,
    "dynamic-update-slice": _updated,
    "gather": _zeros,
    "pad": _padding,
    "reduce": _folds,
    "reduce-window": _folds,
    "scatter": _scattered,
    "select-and-scatter": _chosen,
    "sort": _of_nothing,
    "topk": _of_nothing,
}
