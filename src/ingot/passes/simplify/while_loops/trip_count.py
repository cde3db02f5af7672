# SPDX-License-Identifier: Apache-2.0
"""Trip counts: how often a counted loop runs, if that is known.

A counted loop compares element `i` of its state with a constant; its body adds a constant to it.

The annotator notes trip counts as attributes of loops, so that host programs need not wait for each
condition: after fusion the counter is inside a kernel, where `trip_count` does not see it.

Source: xla/service/while_loop_analysis.cc, while_loop_trip_count_annotator.cc.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.dim import ceil_div
from ingot.hlo.dtype import greatest, least
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.elementwise import SWAPPED
from ingot.hlo.rewrite.op_pass import op_pass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.pattern import splat_of
from ingot.semantics.trip_counts import set_trip_count
from ingot.support.records import record


@record
class Induction:
    """Element `index` of a loop's state: from `start` by `step` while `direction` `limit` holds.

    `least` and `greatest` are the limits of its type: if it would wrap around, the count is
    unknown.
    """

    index: int
    start: int
    step: int
    direction: str
    limit: int
    least: int
    greatest: int

    @property
    def trips(self) -> int | None:
        """How often the body runs, or None if the loop has no simple end."""
        count = self._count()
        if count is None or not self.least <= self.start + count * self.step <= self.greatest:
            return None
        return count

    def _count(self) -> int | None:
        """Return how many steps reach the limit, in integers without bounds."""
        distance = self.limit - self.start
        if self.direction in ("GT", "GE"):
            distance, step = -distance, -self.step
        else:
            step = self.step
        if self.direction in ("LE", "GE"):
            distance += 1
        if self.direction == "NE":
            exact = step != 0 and distance % step == 0 and distance // step >= 0
            return distance // step if exact else None
        if self.direction == "EQ":
            return None
        if distance <= 0:
            return 0
        return ceil_div(distance, step) if step > 0 else None


def element_index(instruction: Instruction, state: Instruction) -> int | None:
    """Return i when `instruction` is element i of `state`, else None."""
    if instruction.opcode != "get-tuple-element" or instruction.operands[0] is not state:
        return None
    index: int = instruction.attributes.index
    return index


def counters(loop: Instruction, trips: int) -> dict[int, tuple[int, int]]:
    """Return (first value, step) of each element of a loop's state that counts in constant steps.

    The loop starts with a tuple and its body, which runs `trips` times, ends with one. An element
    that leaves the range of its type is not among them.
    """
    body: Computation = loop.attributes.body
    found: dict[int, tuple[int, int]] = {}
    first = loop.operands[0].operands
    for number, (start, result) in enumerate(zip(first, body.root.operands, strict=True)):
        value = splat_of(start) if start.shape.is_array and not start.shape.rank else None
        if value is None or not start.shape.dtype.is_integer:
            continue
        step = _step(result, body.parameters[0], number)
        if step is None:
            continue
        element = start.shape.dtype
        if least(element) <= int(value) + trips * step <= greatest(element):
            found[number] = int(value), step
    return found


def trip_count(loop: Instruction) -> int | None:
    """Return how often the body of a `while` runs, or None if it is not known."""
    found = induction(loop)
    return found.trips if found is not None else None


def induction(loop: Instruction) -> Induction | None:
    """Return the induction variable of a counted loop, or None if it is not one."""
    condition: Computation = loop.attributes.condition
    body: Computation = loop.attributes.body
    test = condition.root
    if test.opcode != "compare" or loop.operands[0].opcode != "tuple":
        return None
    compared = _compared(test, condition.parameters[0])
    if compared is None:
        return None
    index, direction, limit = compared
    start = splat_of(loop.operands[0].operands[index])
    if start is None or body.root.opcode != "tuple":
        return None
    step = _step(body.root.operands[index], body.parameters[0], index)
    if step is None:
        return None
    element = test.operands[0].shape.dtype
    return Induction(index, int(start), step, direction, limit, least(element), greatest(element))


def _compared(test: Instruction, state: Instruction) -> tuple[int, str, int] | None:
    """Return (element, direction, limit) of `state[element] direction limit`."""
    left, right = test.operands
    direction: str = test.attributes.direction
    if splat_of(left) is not None:
        left, right, direction = right, left, SWAPPED[direction]
    index, limit = element_index(left, state), splat_of(right)
    if index is None or limit is None or not left.shape.dtype.is_integer:
        return None
    return index, direction, int(limit)


def _step(result: Instruction, state: Instruction, index: int) -> int | None:
    """Return the constant that the body adds to element `index` of its state."""
    if result.opcode not in ("add", "subtract"):
        return None
    left, right = result.operands
    if result.opcode == "add" and splat_of(left) is not None:
        left, right = right, left
    value = splat_of(right)
    if element_index(left, state) != index or value is None:
        return None
    return int(value) if result.opcode == "add" else -int(value)


@op_pass("while-loop-trip-count-annotator", "while")
def while_loop_trip_count_annotator(op: Instruction, module: Module, context: PassContext) -> bool:
    """Notes how often the body of each loop runs, where that is known.

    Counts that a program came with are not trusted.
    """
    return set_trip_count(op, trip_count(op))
