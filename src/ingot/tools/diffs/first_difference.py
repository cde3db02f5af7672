# SPDX-License-Identifier: Apache-2.0
"""The first instruction whose compiled value differs from the evaluator's.

Values within a program are observed as additional results: all at once or, if that hides the
difference (since the kernels change), one at a time, by bisection. If a loop, a branch or a call
differs, its computations are examined, iteration by iteration.

Invariant: the instruction that is named did differ in a program that was compiled and run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingot.evaluator import Value
from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.support.diagnostics import IngotError
from ingot.support.records import record, replace
from ingot.tools.programs.cases import Case
from ingot.tools.programs.comparing import Bounds, Comparison, compare
from ingot.tools.programs.platforms import PLATFORMS, flat
from ingot.tools.reduction.called import CALLERS, called_cases
from ingot.tools.reduction.subgraph import is_free, subgraph, values_of

MOST_NESTING = 16
"""Nested loops, branches and calls that are examined, at most."""


@record
class Difference:
    """An instruction whose value differs.

    Attributes:
        case: the program that it is in, with its inputs.
        instruction: the instruction, of the case's entry.
        path: where the case is in the first program, from the outside in; empty for all of it.
        how: how the value differs.
        alone: the instruction alone, on its operands in the compiled program.
        from_operands: how the compiled value differs from the evaluator's on these operands.
            If it agrees, the operands differ within the bounds, and the op makes that more.
        adds_up: whether it is a loop of which no iteration differs by itself.
    """

    case: Case
    instruction: Instruction
    path: tuple[str, ...]
    how: Comparison
    alone: Case | None
    from_operands: Comparison | None
    adds_up: bool = False


def compared(case: Case, bounds: Bounds) -> list[Comparison]:
    """Return the comparison of each result of a compiled program with the evaluator's."""
    assert case.inputs is not None
    got = PLATFORMS["cpu"](case.module)([case.inputs])
    want = PLATFORMS["evaluator"](case.module)([case.inputs])
    pairs = enumerate(zip(got, want, strict=True))
    return [compare(number, mine, other, bounds) for number, (mine, other) in pairs]


def first_difference(case: Case, bounds: Bounds) -> Difference | None:
    """Return the first instruction of a case that differs, or of the computations that it calls.

    None if no instruction shows a difference when its value is a result.
    """
    found = _in_entry(case, bounds)
    path: tuple[str, ...] = ()
    while found is not None and len(path) < MOST_NESTING:
        deeper = _within(found, bounds)
        if deeper is None:
            return replace(found, path=path, adds_up=found.instruction.opcode == "while")
        where, inner = deeper
        further = _in_entry(inner, bounds)
        if further is None:
            break
        path = (*path, where)
        found = replace(further, path=path)
    return found


def _within(found: Difference, bounds: Bounds) -> tuple[str, Case] | None:
    """Return a computation that the instruction runs and that differs by itself, and its path."""
    caller = found.instruction
    if caller.opcode not in CALLERS:
        return None
    values = values_of(found.case)
    operands = tuple(values[operand.name] for operand in caller.operands)
    for where, inner in called_cases(found.case.module, caller, operands):
        if not all(one.agrees for one in compared(inner, bounds)):
            return where, inner
    return None


def _in_entry(case: Case, bounds: Bounds) -> Difference | None:
    wanted = values_of(case)
    items = [item for item in case.module.entry.post_order() if _is_seen(item)]
    if not wanted or not items:
        return None
    seen = _compiled(case, items)
    number = _first(items, seen, wanted, bounds)
    if number is None:
        number = _by_bisection(case, items, wanted, bounds)
        if number is None:
            return None
        item = items[number]
        seen = _compiled(case, [*(one for one in item.operands if _is_seen(one)), item])
        if _first([item], seen, wanted, bounds) is None:
            seen = _compiled(case, [item])
    item = items[number]
    how = _how(seen[item.name], wanted[item.name], bounds)
    return _with_operands(Difference(case, item, (), how, None, None), {**wanted, **seen}, bounds)


def _with_operands(found: Difference, values: Mapping[str, Value], bounds: Bounds) -> Difference:
    """Add the evaluator's result on the operands in the compiled program."""
    name = found.instruction.name
    alone = subgraph(found.case, {name}, values)
    if alone is None or alone.inputs is None:
        return found
    try:
        again = PLATFORMS["evaluator"](alone.module)([alone.inputs])
    except IngotError:
        return found
    got = flat(values[name])
    if len(again) == len(got):
        how = _how(tuple(got), tuple(again), bounds)
        return replace(found, alone=alone, from_operands=how)
    return found


def _is_seen(item: Instruction) -> bool:
    """Whether the value of an instruction can be a result, and is informative."""
    leaves = [leaf for _, leaf in item.shape.leaves()]
    moves = item.opcode in ("tuple", "get-tuple-element")
    return not is_free(item) and not moves and all(leaf.is_array for leaf in leaves)


def _first(
    items: Sequence[Instruction],
    seen: Mapping[str, Value],
    wanted: Mapping[str, Value],
    bounds: Bounds,
) -> int | None:
    for number, item in enumerate(items):
        if not _how(seen[item.name], wanted[item.name], bounds).agrees:
            return number
    return None


def _by_bisection(
    case: Case, items: Sequence[Instruction], wanted: Mapping[str, Value], bounds: Bounds
) -> int | None:
    """Return the first number whose value, observed alone, differs, if a later one does."""

    def differs(number: int) -> bool:
        item = items[number]
        return _first([item], _compiled(case, [item]), wanted, bounds) is not None

    low, high = 0, len(items) - 1
    if not differs(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if differs(middle) else (middle + 1, high)
    return low


def _compiled(case: Case, items: Sequence[Instruction]) -> dict[str, Value]:
    """Return the values of instructions in the compiled program."""
    assert case.inputs is not None
    leaves = iter(PLATFORMS["cpu"](_showing(case.module, items))([case.inputs]))
    count = {item.name: len(item.shape.leaves()) for item in items}
    found: dict[str, Value] = {}
    for item in items:
        mine: list[Array] = [next(leaves) for _ in range(count[item.name])]
        found[item.name] = tuple(mine) if item.shape.is_tuple else mine[0]
    return found


def _showing(module: Module, items: Sequence[Instruction]) -> Module:
    """Return a copy with further results; its own come last."""
    made = module.clone()
    entry = made.entry
    names = {item.name: item for item in entry.instructions}
    shown = [names[item.name] for item in items]
    entry.set_root(Builder(entry).emit("tuple", *shown, entry.root))
    made.aliases = ()
    made.extra = {}
    return made


def _how(got: Value, want: Value, bounds: Bounds) -> Comparison:
    """Return the comparison of the first leaf that differs, or of all with the worst error."""
    found = [
        compare(number, mine, other, bounds)
        for number, (mine, other) in enumerate(zip(flat(got), flat(want), strict=True))
    ]
    for one in found:
        if not one.agrees:
            return one
    return max(found, key=lambda one: one.worst)
