# SPDX-License-Identifier: Apache-2.0
"""Values that a loop does not change: computed before it, or made anew inside of it.

`while-loop-invariant-code-motion` takes values out. An instruction of the body is invariant if it
reads only elements of the state that the body returns unchanged, constants, and other invariants.
It moves to the loop's caller, and its result becomes one more unchanged element of the state. Ops
that only move or repeat elements stay, unless an instruction that moves needs them: recomputing
them is cheaper than keeping their results.

`while-loop-constant-sinking` takes broadcasts in. An element of the state that the body returns
unchanged, and that is a broadcast or an iota before the loop, becomes one in the body: the state
holds the smaller value, and rules see what the element is. Constants are sunk by
`simplify-while-loops`.

`while-loop-product-layout` transposes factors. A product of few rows by a matrix that it reads
along the sum, `x w^T`, packs the matrix anew: as much work as some rows. In a loop that does not
change the matrix (the weights of a recurrent layer) the matrix is transposed once, before the loop,
and becomes one more element of the state:

    while (x, w): x = tanh(dot(x, w, rhs_contracting_dims={1}))
becomes
    while (x, w, transpose(w)): x = tanh(dot(x, t, rhs_contracting_dims={0}))

Invariant: a loop that is not entered may compute more than before, but has no effect and cannot
fail.

Source: xla/service/while_loop_invariant_code_motion.cc, while_loop_constant_sinking.cc (which sinks
broadcasts of constants); results larger than what they are computed from are hoisted if they are
dear (while_loop_expensive_invariant_code_motion.cc).
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.dots import DotAttributes
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.shape import Shape
from ingot.passes.simplify.dots.sides import Side, dot_of, sides_of
from ingot.passes.simplify.while_loops.state import (
    LoopPass,
    hoist,
    invariants,
    loop_pass,
    replace_loop,
    unchanged_elements,
    widened,
)
from ingot.support.graphs import reachable
from ingot.support.records import record

_CHEAP = ops_with(Trait.SHAPING, Trait.CONSTANT_LIKE, Trait.TUPLE, also=("copy",))
"""Ops that are not worth an element of the state."""

_DEAR = ops_with(FusionClass.CONTRACTION, FusionClass.REDUCTION, FusionClass.OPAQUE)
"""Ops whose results are kept whatever memory they take."""


@record
class WhileLoopInvariantCodeMotion(LoopPass):
    """Moves invariant instructions out of loops.

    Attributes:
        least_elements: smaller results stay: they are computed in registers, and an element of
            the state costs as much.
    """

    name = "while-loop-invariant-code-motion"
    least_elements: int = 65

    def rewrite(self, loop: Instruction, module: Module, context: PassContext) -> bool:
        """Hoist what is worth an element of the state; return whether anything was."""
        invariant = invariants(loop.attributes.body)
        hoistable = [
            one
            for one in invariant
            if self._is_worth(one)
            and any(user not in invariant or not self._is_worth(user) for user in one.users)
        ]
        moved = [one for one in hoistable if _is_read(one, invariant, hoistable)]
        if moved:
            hoist(loop, moved, module)
        return bool(moved)

    def _is_worth(self, one: Instruction) -> bool:
        """Whether a result is worth an element of the state."""
        if one.opcode in _CHEAP:
            return False
        if not one.shape.is_array or not _at_least(one.shape, self.least_elements):
            return one.opcode in _DEAR and one.shape.is_array
        return one.opcode in _DEAR or one.has(Trait.EXPENSIVE) or not _is_inflated(one)


while_loop_invariant_code_motion = WhileLoopInvariantCodeMotion()


def _at_least(shape: Shape, least: int) -> bool:
    return not isinstance(shape.size, int) or shape.size >= least


def _is_inflated(one: Instruction) -> bool:
    """Whether a result is larger than all that it is computed from in memory."""

    def operands(item: Instruction) -> tuple[Instruction, ...]:
        return () if item.opcode == "get-tuple-element" else item.operands

    inner = reachable([one], operands)
    read = sum(item.shape.bytes for item in inner if item.opcode == "get-tuple-element")
    size = one.shape.bytes
    return isinstance(size, int) and isinstance(read, int) and size > read


def _is_read(
    one: Instruction, invariant: dict[Instruction, None], hoistable: list[Instruction]
) -> bool:
    """Whether an instruction that stays in the loop needs a result, perhaps through cheap ops."""
    cheap = reachable([one], lambda item: [u for u in item.users if u not in hoistable])
    return any(user not in invariant for item in cheap for user in item.users)


@loop_pass("while-loop-constant-sinking")
def while_loop_constant_sinking(loop: Instruction, module: Module, context: PassContext) -> bool:
    """Repeats elements inside of loops that only read them."""
    body: Computation = loop.attributes.body
    first, results = loop.operands[0].operands, body.root.operands
    sunk = {
        number: first[number]
        for number in sorted(unchanged_elements(body))
        if results[number].use_count > 1 and _repeats(first[number])
    }
    if not sunk:
        return False
    values = list(dict.fromkeys(value for one in sunk.values() for value in one.operands))
    made = widened(loop, values, module)
    inside = dict(zip(values, made.added, strict=True))
    for number, repeated in sunk.items():
        copy = made.body.copy_of(repeated, [inside[value] for value in repeated.operands])
        made.body.replace_all_uses(made.copies[results[number]], copy)
    made.keep_unchanged(sunk)
    replace_loop(loop, made.loop)
    return True


def _repeats(value: Instruction) -> bool:
    """Whether a value is smaller than its shape: an iota, or a broadcast of fewer elements."""
    if value.opcode == "iota":
        return True
    if value.opcode != "broadcast":
        return False
    size, whole = value.operands[0].shape.size, value.shape.size
    return isinstance(size, int) and isinstance(whole, int) and size < whole


@record
class WhileLoopProductLayout(LoopPass):
    """Transposes matrices that products of a loop would pack in each trip.

    Attributes:
        least_rows: products of fewer rows read the matrix once, in place.
        most_rows: in products of more, packing the matrix is a small part.
        least_elements: smaller matrices are packed in no time.
    """

    name = "while-loop-product-layout"
    least_rows: int = 2
    most_rows: int = 64
    least_elements: int = 16_384

    def rewrite(self, loop: Instruction, module: Module, context: PassContext) -> bool:
        """Transpose matrices before a loop."""
        body: Computation = loop.attributes.body
        kept = {body.root.operands[number] for number in unchanged_elements(body)}
        found: dict[Instruction, list[Instruction]] = {}
        for dot in body.post_order():
            if dot.opcode == "dot" and self._packs(dot) and dot.operands[1] in kept:
                found.setdefault(dot.operands[1], []).append(dot)
        moved: list[Instruction] = []
        for matrix, dots in found.items():
            transposed = Builder(body, dots[0].metadata).transpose(matrix, dimensions=(1, 0))
            moved.append(transposed)
            for dot in dots:
                left, _ = sides_of(dot)
                sides = (left, Side(transposed, (), (0,)))
                body.replace(dot, dot_of(dot, Builder(body, dot.metadata), sides))
        if moved:
            hoist(loop, moved, module)
        return bool(moved)

    def _packs(self, dot: Instruction) -> bool:
        """Whether a product has few rows, and reads a large matrix along the sum."""
        left, right = dot.operands
        given = dot.as_(DotAttributes)
        if left.shape.rank != 2 or right.shape.rank != 2 or given.lhs_batch_dims:
            return False
        if given.lhs_contracting_dims != (1,) or given.rhs_contracting_dims != (1,):
            return False
        rows, elements = left.shape.dims[0], right.shape.size
        few = isinstance(rows, int) and self.least_rows <= rows <= self.most_rows
        return few and isinstance(elements, int) and elements >= self.least_elements


while_loop_product_layout = WhileLoopProductLayout()
