# SPDX-License-Identifier: Apache-2.0
"""Fingerprints: a hash of a module's structure, the same in every process.

Two modules with one fingerprint have the same graph, shapes, attributes, constants and aliases;
names, metadata and insertion order of live instructions do not count. The runner compares
fingerprints to catch passes that change a module without reporting it; caches use them as keys.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> def negated(name: str) -> Computation:
    ...     b = Builder(name)
    ...     return b.build(b.negate(b.parameter(0, "f32[2]")))
    >>> fingerprint_computation(negated("f")) == fingerprint_computation(negated("g"))
    True
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.support.graphs import needs_first

Known = dict[Computation, str]
ExtraOf = Callable[[Instruction], Mapping[str, str]]


def _all_extra(instruction: Instruction) -> Mapping[str, str]:
    return instruction.extra


def fingerprint(module: Module, extra_of: ExtraOf = _all_extra) -> str:
    """Return the hash of a module, unreachable computations included, as 32 hex digits.

    `extra_of` returns the attributes of an instruction that are kept as text and that count.
    """
    known: Known = {}
    parts = [fingerprint_computation(module.entry, known, extra_of)]
    held = module.computations.values()
    parts += sorted(fingerprint_computation(each, known, extra_of) for each in held)
    parts.append(repr(module.aliases))
    parts.append(_text(module.extra))
    return _digest("\n".join(parts))


def fingerprint_computation(
    computation: Computation, known: Known | None = None, extra_of: ExtraOf = _all_extra
) -> str:
    """Return the hash of a computation and its callees.

    `known` holds those already hashed; `extra_of` is as for `fingerprint`.
    """
    known = {} if known is None else known
    for item in needs_first([computation], Computation.callees, known):
        known[item] = _fingerprint(item, known, extra_of)
    return known[computation]


def _fingerprint(computation: Computation, known: Known, extra_of: ExtraOf) -> str:
    """Return the hash of a computation whose callees are `known`."""
    numbers: dict[Instruction, int] = {}
    lines: list[str] = []
    for number, instruction in enumerate(_order(computation)):
        numbers[instruction] = number
        extra = extra_of(instruction) if instruction.extra else instruction.extra
        lines.append(_line(instruction, numbers, known) + (_text(extra) if extra else ""))
    lines.append(f"root {numbers[computation.root]}")
    return _digest("\n".join(lines))


class Representatives:
    """Maps each computation to the first one seen with the same fingerprint.

    Only computations with a candidate of similar form are hashed.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._of: dict[Computation, Computation] = {}
        self._first: dict[tuple[object, ...], Computation] = {}
        self._by_hash: dict[str, Computation] = {}
        self._known: Known = {}

    def of(self, computation: Computation) -> Computation:
        """Return the computation's representative; itself if it is the first of its kind."""
        found = self._of.get(computation)
        if found is None:
            root = computation.root
            alike = (len(computation), root.opcode, root.shape)
            first = self._first.setdefault(alike, computation)
            if first is computation:
                found = computation
            else:
                self._by_hash.setdefault(self._hash(first), first)
                found = self._by_hash.setdefault(self._hash(computation), computation)
            self._of[computation] = found
        return found

    def _hash(self, computation: Computation) -> str:
        return fingerprint_computation(computation, self._known)


def _order(computation: Computation) -> list[Instruction]:
    """Operands first, from the root; then the instructions that the root does not need."""
    return needs_first(
        [computation.root, *computation.instructions],
        lambda item: (*item.operands, *item.control_predecessors),
    )


def _line(instruction: Instruction, numbers: dict[Instruction, int], known: Known) -> str:
    operands = ",".join(str(numbers[operand]) for operand in instruction.operands)
    text = f"{instruction.opcode}({operands}){instruction.shape}"
    if instruction.attributes is not NO_ATTRIBUTES:
        values = (
            _value(getattr(instruction.attributes, row.name), known)
            for row in instruction.definition.fields
        )
        text += ";".join(values)
    if instruction.control_predecessors:
        text += f" after {sorted(numbers[p] for p in instruction.control_predecessors)}"
    return text


def _text(extra: Mapping[str, str]) -> str:
    return repr(sorted(extra.items()))


def _value(value: Any, known: Known) -> str:
    if isinstance(value, Computation):
        return known[value]
    if isinstance(value, Literal):
        return _literal(value)
    if isinstance(value, tuple):
        return "(" + ",".join(_value(item, known) for item in value) + ")"  # pyright: ignore
    return repr(value)


def _literal(literal: Literal) -> str:
    if literal.array is None:
        return "(" + ",".join(map(_literal, literal.elements)) + ")"
    data = literal.array.tobytes()
    return data.hex() if len(data) <= 16 else hashlib.blake2b(data, digest_size=16).hexdigest()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
