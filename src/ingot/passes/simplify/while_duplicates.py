# SPDX-License-Identifier: Apache-2.0
"""Elements of a loop's state that are always equal.

Two elements are equal after every trip if they start with the same value and the body computes both
alike from equal elements: JAX's `fori_loop` has two counters, its own and that of the scan which it
becomes. Elements with the same start count as equal until the body distinguishes them (partition
refinement, by which automata are minimized); those that remain equal always are.

Called by `while_loops`, which then carries one element of each.
Source: xla/service/while_loop_simplifier.cc (TryRemoveRepeatedWhileTupleIndices, which finds those
that the body returns unchanged only); Hopcroft, "An n log n algorithm for minimizing states".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.fingerprint import Representatives
from ingot.passes.simplify.common_subexpressions import expression_key, may_merge
from ingot.passes.simplify.trip_count import element_index


def duplicates(loop: Instruction) -> dict[int, int]:
    """Return, by element of the state, the first other element that it always equals.

    The loop starts with a tuple instruction, and its body ends with one.
    """
    start = loop.operands[0].operands
    body: Computation = loop.attributes.body
    results = body.root.operands
    first = _firsts((value, result.opcode) for value, result in zip(start, results, strict=True))
    while any(number != other for number, other in enumerate(first)):
        numbers = _value_numbers(body, first)
        finer = _firsts((other, numbers[results[n]]) for n, other in enumerate(first))
        if finer == first:
            return {number: other for number, other in enumerate(first) if number != other}
        first = finer
    return {}


def _firsts(keys: Iterable[Hashable]) -> list[int]:
    """Return, for each key, the position of the first one that equals it."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(key, number) for number, key in enumerate(keys)]


def _value_numbers(body: Computation, first: list[int]) -> dict[Instruction, int]:
    """Number a body's values such that equal numbers are equal values if equal elements are."""
    state = body.parameters[0]
    called = Representatives()
    effects: dict[Computation, bool] = {}
    known: dict[Hashable, int] = {}
    numbers: dict[Instruction, int] = {}
    for instruction in body.post_order():
        index = element_index(instruction, state)
        if index is not None:
            key: Hashable = ("element", first[index])
        elif may_merge(instruction, effects):
            key = expression_key(instruction, numbers, called)
        else:
            key = instruction
        numbers[instruction] = known.setdefault(key, len(known))
    return numbers
