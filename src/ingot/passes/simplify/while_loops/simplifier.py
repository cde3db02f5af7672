# SPDX-License-Identifier: Apache-2.0
"""Loops that run zero times or once, and elements of the state that loops need not carry.

A loop whose body returns its state unchanged is removed: if it ends, its result is its first state.
An element of the state is removed if nothing needs it, if it always equals another one, or if the
body returns it unchanged and its first value is a constant, which its readers then read. Readers of
an unchanged element after the loop read its first value, and those of one that counts in constant
steps a constant.

Two elements are equal after every trip if they start with the same value and the body computes both
alike from equal elements: JAX's `fori_loop` has two counters, its own and that of the scan which it
becomes. Elements with the same start count as equal until the body distinguishes them (partition
refinement, by which automata are minimized); those that remain equal always are.

Source: xla/service/while_loop_simplifier.cc (whose TryRemoveRepeatedWhileTupleIndices finds those
that the body returns unchanged only), while_loop_constant_sinking.cc; Hopcroft, "An n log n
algorithm for minimizing states".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import cache

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, has_side_effect, reached
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.rewrite.fingerprint import Representatives
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.shape import Shape
from ingot.passes.inline import copy_into
from ingot.passes.simplify.dead_code import expression_key, live_instructions, may_merge
from ingot.passes.simplify.while_loops.rows import trips_of
from ingot.passes.simplify.while_loops.state import is_plain, unchanged_elements
from ingot.passes.simplify.while_loops.trip_count import element_index, trip_count
from ingot.support.graphs import reachable
from ingot.support.records import record


@module_pass("simplify-while-loops", "while")
def simplify_while_loops(module: Module, context: PassContext) -> bool:
    """Removes loops of zero or one trip and shrinks the state of the others."""
    changed = False
    effects: dict[Computation, bool] = {}
    # A loop in the body of one that runs once is visited where the body is inlined.
    for computation in reached(module.entry):
        work = _loops(computation)
        while work:
            made = _without_loop(work.pop(), effects)
            if made is not None:
                work.extend(one for one in reversed(made) if one.opcode == "while")
                changed = True
    for computation in module.post_order():
        for loop in reversed(_loops(computation)):
            changed = _shrink(loop, effects) or changed
    return changed


def _loops(computation: Computation) -> list[Instruction]:
    """Return the loops without control predecessors, the first one last."""
    if "while" not in computation.opcodes:
        return []
    return [i for i in reversed(computation.post_order()) if i.opcode == "while"]


def _without_loop(loop: Instruction, effects: dict[Computation, bool]) -> list[Instruction] | None:
    """Replace a loop that runs once or never; return its replacement, None if it stays."""
    if loop.control_predecessors:
        return None
    trips = trip_count(loop)
    caller = loop.computation
    body: Computation = loop.attributes.body
    copies: dict[Instruction, Instruction] = {}
    if trips == 0 or (body.root is body.parameters[0] and not has_side_effect(loop, effects)):
        result = loop.operands[0]
    elif trips == 1:
        copies = dict(zip(body.parameters, loop.operands, strict=True))
        result = copy_into(caller, body.post_order(), copies)[body.root]
    else:
        return None
    caller.replace_all_uses(loop, result)
    caller.remove(loop)
    return [copy for source, copy in copies.items() if source.opcode != "parameter"]


def _shrink(loop: Instruction, known: dict[Computation, bool]) -> bool:
    """Remove elements of the state; return whether there were any."""
    body: Computation = loop.attributes.body
    start = loop.operands[0]
    if not is_plain(loop):
        return False
    is_changed = _read_counted(loop)
    if loop.parent is None:
        return True  # Only that was read of it.
    unchanged = unchanged_elements(body)
    constants = {n for n in unchanged if start.operands[n].opcode == "constant"}
    same = duplicates(loop)
    needed = _needed(loop, unchanged, same, known) - constants
    count = len(start.operands)
    if len(needed) == count or not needed:
        return _read_before(loop, unchanged) or is_changed
    _rebuild(loop, sorted(needed), unchanged, same, known)
    return True


def _needed(
    loop: Instruction, unchanged: set[int], same: dict[int, int], known: dict[Computation, bool]
) -> set[int]:
    """Return the elements that the condition, effects, or what follows the loop need.

    Of elements that are the `same`, only the first one is needed.
    """
    body: Computation = loop.attributes.body
    condition: Computation = loop.attributes.condition
    results = body.root.operands
    needed = _read(live_instructions(condition, known), condition.parameters[0], same)
    needed |= _read(_cone(_effects(body, known)), body.parameters[0], same)
    outside = [element_index(user, loop) for user in loop.users]
    whole = loop.is_root or any(index is None for index in outside)
    after = set(range(len(results))) if whole else set(_known(outside))
    needed |= {same.get(number, number) for number in after - unchanged}
    stack = list(needed)
    while stack:
        more = _read(_cone([results[stack.pop()]]), body.parameters[0], same) - needed
        needed |= more
        stack.extend(more)
    return needed


def _effects(computation: Computation, known: dict[Computation, bool]) -> list[Instruction]:
    """Return the instructions with side effects, also those that the root needs."""
    return [one for one in computation.calls_and_effects if has_side_effect(one, known)]


def _known(indices: Iterable[int | None]) -> Iterator[int]:
    return (index for index in indices if index is not None)


def _cone(roots: list[Instruction]) -> set[Instruction]:
    """Return everything that `roots` are computed from, themselves included."""
    return set(reachable(roots, lambda item: (*item.operands, *item.control_predecessors)))


def _read(instructions: set[Instruction], state: Instruction, same: dict[int, int]) -> set[int]:
    read = _known(element_index(instruction, state) for instruction in instructions)
    return {same.get(number, number) for number in read}


def _read_before(loop: Instruction, unchanged: set[int]) -> bool:
    """Make readers of unchanged elements after the loop read their first values."""
    changed = False
    for user in list(loop.users):
        index = element_index(user, loop)
        if index is not None and index in unchanged:
            loop.computation.replace(user, loop.operands[0].operands[index])
            changed = True
    return changed


def _read_counted(loop: Instruction) -> bool:
    """Replace elements that count, read after the loop, by their final values: constants."""
    trips = trips_of(loop)
    if trips is None:
        return False
    changed = False
    for user in list(loop.users):
        index = element_index(user, loop)
        if index is not None and index in trips.counters and not user.control_predecessors:
            start, step = trips.counters[index]
            last = Literal.of(start + trips.count * step, user.shape.dtype)
            caller = user.computation
            caller.replace(user, Builder(caller, user.metadata).constant(last))
            changed = True
    return changed


def _rebuild(
    loop: Instruction,
    live: list[int],
    unchanged: set[int],
    same: dict[int, int],
    known: dict[Computation, bool],
) -> None:
    """Replace the loop by one whose state has the elements `live` only."""
    caller = loop.computation
    old_start = loop.operands[0]
    first = old_start.operands
    narrowing = _Narrowing(live, same, first, known)
    body = narrowing.body(loop.attributes.body)
    condition = narrowing.condition(loop.attributes.condition)
    assert caller.module is not None, "passes rewrite computations of a module"
    caller.module.take(body)
    caller.module.take(condition)
    build = Builder(caller, loop.metadata)
    start = build.tuple(*(first[number] for number in live))
    made = build.while_(start, condition=condition, body=body)
    made.extra = dict(loop.extra)

    @cache
    def result(number: int) -> Instruction:
        if number in unchanged or number not in live:
            return first[number]
        return build.get_tuple_element(made, index=live.index(number))

    for user in list(loop.users):
        index = element_index(user, loop)
        if index is not None:
            new = result(same.get(index, index))
            caller.substitute(user, new)
    if loop.users or loop.is_root:
        parts = [result(same.get(number, number)) for number in range(len(first))]
        caller.replace_all_uses(loop, build.tuple(*parts))
    caller.remove(loop)
    caller.remove_dead(old_start)


@record
class _Narrowing:
    """Copies a loop's computations for a state of fewer elements.

    Attributes:
        live: numbers of the elements that stay.
        same: element -> the one that is equal to it and stands for it.
        first: the elements before the loop.
        known: whether computations have effects, of those that were asked about.
    """

    live: list[int]
    same: dict[int, int]
    first: tuple[Instruction, ...]
    known: dict[Computation, bool]

    def body(self, source: Computation) -> Computation:
        """Return the copy of a body, whose results are the elements that stay."""
        roots = [source.root.operands[number] for number in self.live]
        made, copies = self._copy(source, roots)
        made.set_root(Builder(made).tuple(*(copies[root] for root in roots)))
        return made

    def condition(self, source: Computation) -> Computation:
        """Return the copy of a condition."""
        made, copies = self._copy(source, [source.root])
        made.set_root(copies[source.root])
        return made

    def _copy(
        self, source: Computation, roots: list[Instruction]
    ) -> tuple[Computation, dict[Instruction, Instruction]]:
        """Return a copy of what `roots` and effects need, and instruction -> its copy."""
        live, first = self.live, self.first
        made = Computation(source.name)
        build = Builder(made)
        old_state = source.parameters[0]
        shape = Shape.tuple(tuple(first[number].shape for number in live))
        state = build.parameter(0, shape, old_state.name)
        copies = {old_state: state}

        @cache
        def element(number: int) -> Instruction:
            if number in live:
                return build.get_tuple_element(state, index=live.index(number))
            return build.constant(first[number].attributes.literal)

        for read in source.post_order():
            index = element_index(read, old_state)
            if index is None:
                continue
            index = self.same.get(index, index)
            if index in live or first[index].opcode == "constant":
                copies[read] = element(index)
        wanted = _cone([*roots, *_effects(source, self.known)])
        copy_into(made, [i for i in source.post_order() if i in wanted], copies)
        return made, copies


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
