# SPDX-License-Identifier: Apache-2.0
"""Annotated shardings of a program that is still whole, for rewrites before it is partitioned.

Shardy annotates a module's parameters and ops, and adds annotations of their own (calls of
`Sharding`) where an op's operands must be divided otherwise than they are. The state of a loop is
annotated on the loop.

Invariant: values that the user divides by hand, along all axes or some, have no known sharding.
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.passes.spmd.runs import is_box, is_link, is_movement
from ingot.passes.spmd.sharding import (
    Sharding,
    manual_subgroups,
    maximal_device,
    parse_sharding,
    split_tuple,
)

ANNOTATION = "Sharding"


def _text(value: Instruction) -> str:
    return value.extra.get("sharding", "")


def target_of(instruction: Instruction) -> str:
    """Return the target of a custom call, "" for any other op."""
    is_call = instruction.opcode == "custom-call"
    return instruction.attributes.custom_call_target if is_call else ""


def is_resharded(value: Instruction) -> bool:
    """Whether a value is an annotation of another value."""
    return target_of(value) == ANNOTATION


class Known:
    """The shardings that a module's annotations give.

    Attributes:
        count: the number of devices.
    """

    def __init__(self, module: Module, count: int) -> None:
        """Read the annotations of loops; others are read when they are asked for."""
        self.count = count
        self._states: dict[Instruction, str] = {}
        self._given: dict[Instruction, Sharding] = {}
        for computation in module.post_order():
            for op in computation.instructions:
                if op.opcode == "while":
                    for region in op.called_computations:
                        self._states[region.parameters[0]] = _text(op)

    def __contains__(self, value: Instruction) -> bool:
        """Whether a value is known to be divided."""
        return self.of(value) is not None

    def set(self, value: Instruction, sharding: Sharding) -> None:
        """Record the sharding of a new value."""
        self._given[value] = sharding

    def of(self, value: Instruction) -> Sharding | None:
        """Return the sharding of an array; None if it is not divided or that is not known."""
        if value in self._given:
            return self._given[value]
        text = self._text(value)
        if not value.shape.is_array or manual_subgroups(text) or maximal_device(text) is not None:
            return None
        found = parse_sharding(text, self.count)
        return found if found is not None and found.tiles and not found.summands else None

    def _text(self, value: Instruction) -> str:
        text = _text(value)
        if text or value.opcode != "get-tuple-element":
            return text
        (state,) = value.operands
        texts = self._states.get(state) or _text(state)
        elements = split_tuple(texts) if texts.startswith("{{") else []
        index: int = value.attributes.index
        return elements[index] if index < len(elements) else ""


def replace_value(old: Instruction, new: Instruction) -> None:
    """Replace a value, and remove what only it used."""
    computation, operands = old.computation, old.operands
    computation.replace(old, new)
    for operand in operands:
        computation.remove_dead(operand)


def loosen_movements(module: Module, known: Known) -> None:
    """Remove annotations around movements: Shardy adds some, which would gather the values.

    Such an op takes operands as they are divided, and its result is divided as its users ask, if
    they agree.
    """
    for computation in module.post_order():
        for op in computation.post_order():
            if op.parent is None or not is_movement(op):
                continue
            for number, operand in enumerate(op.operands):
                source = operand
                while (inner := _same_value(source, known)) is not None:
                    source = inner
                if source is not operand and _text(operand) == _text(op):
                    op.extra.pop("sharding", None)  # Shardy chose it for the operands' sake.
                computation.replace_operand(op, number, source)
                computation.remove_dead(operand)
            _take_annotation(op, known)
        for op in computation.post_order():
            # Boxes of boxes will be split by dimension.
            is_inner_box = bool(op.users) and all(map(is_box, (op, *op.users)))
            if is_link(op) or is_inner_box:
                op.extra.pop("sharding", None)


def _same_value(value: Instruction, known: Known) -> Instruction | None:
    """Return the value that an op only annotates, or gives dimensions of size 1 and takes them."""
    if is_resharded(value):
        text = _text(value)
        is_plain = not manual_subgroups(text) and parse_sharding(text, known.count) is not None
        return value.operands[0] if is_plain else None
    if value.opcode != "reshape" or value.operands[0].opcode != "broadcast":
        return None
    (wide,) = value.operands
    (source,), dimensions = wide.operands, wide.attributes.dimensions
    is_same = source.shape.dims == value.shape.dims and source.shape.size == wide.shape.size
    return source if is_same and tuple(sorted(dimensions)) == dimensions else None


def _take_annotation(op: Instruction, known: Known) -> None:
    """Give an op the annotation of its users, if all have the same."""
    users = list(op.users)
    texts = {_text(user) for user in users}
    if not users or op.is_root or len(texts) != 1 or not all(map(is_resharded, users)):
        return
    if known.of(users[0]) is not None:
        (op.extra["sharding"],) = texts
    elif _same_value(users[0], known) is None or "sharding" in op.extra:
        return
    for user in users:
        op.computation.replace(user, op)
