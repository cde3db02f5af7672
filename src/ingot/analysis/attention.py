# SPDX-License-Identifier: Apache-2.0
"""Attention in HLO: products of queries and keys, a softmax along the keys, products with values.

`attention_of(dot)` looks from the second product back to the first. Between them stand what makes
scores of products (scale, mask, bias), the softmax as frameworks write it, and reshapes that leave
the keys' dimension alone:

    scores = f(dot(queries, keys))
    powers = exponential(scores - broadcast(shift(reduce_max(scores))))
    weights = powers / broadcast(reduce_add(powers))
    result = dot(weights, values)

Used by the pass that makes one kernel of it (`passes.fusion.attention`) and by the lowering of that
kernel (`kernel.attention.build`), which sees the same instructions in a fused computation.

Invariant: the attention found computes the same whether scores are in memory or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import BF16, F16, F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.opset.reduction import ReduceAttributes
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.semantics.reducers import is_identity, reducer_opcode
from ingot.support.records import record

TYPES = frozenset({F32, F64, F16, BF16})
"""Element types of operands and scores."""

MOST_STEPS = 24
"""Ops between the products on one path, at most."""

_RESHAPES = ops_with(Trait.RESHAPE_LIKE)
_ELEMENTWISE = ops_with(Trait.ELEMENTWISE)


@record
class Attention:
    """The instructions of one attention.

    Attributes:
        first: the product of queries and keys, `[batch, m, n]` or `[m, n]`.
        scores: what the softmax is of; its last dimension is n, the others together batch and m.
        greatest: the greatest score of each row.
        shift: the value subtracted from the scores of each row.
        powers: the exponentials.
        total: the sum of each row's powers.
        scaling: the op that makes weights of powers, and its value for each row; None: weights
            are powers.
        second: the product of weights and values.
        side: which operand of `second` the weights are.
    """

    first: Instruction
    scores: Instruction
    greatest: Instruction
    shift: Instruction
    powers: Instruction
    total: Instruction
    scaling: tuple[str, Instruction] | None
    second: Instruction
    side: int

    @property
    def depth(self) -> int | Dim:
        """The summed dimension of the first product, k."""
        (summed,) = self.first.as_(DotAttributes).lhs_contracting_dims
        return self.first.operands[0].shape.dims[summed]

    @property
    def width(self) -> int | Dim:
        """Columns of the values, e: of the result's last two dimensions the one beside m."""
        return self.second.shape.dims[-1 - self.side]


def attention_of(second: Instruction) -> Attention | None:
    """Return the attention whose second product is `second`, a canonical dot, or None."""
    if second.opcode != "dot" or second.shape.dtype not in TYPES:
        return None
    return next((found for side in (0, 1) if (found := _with_weights(second, side))), None)


def _with_weights(second: Instruction, side: int) -> Attention | None:
    """Return the attention whose weights are operand `side` of `second`, or None."""
    weights = second.operands[side]
    if not _sums_last(second, side):
        return None
    scaled = _unshaped(weights)
    powers, scaling = scaled, None
    if scaled.opcode == "divide" or scaled.opcode == "multiply":
        by_row = row_of(scaled.operands[1])
        if by_row is None:
            return None
        powers, scaling = _unshaped(scaled.operands[0]), (scaled.opcode, by_row)
    if powers.opcode != "exponential" or powers.operands[0].opcode != "subtract":
        return None
    scores, spread = powers.operands[0].operands
    shift = row_of(spread)
    greatest, total = _fold_of(scores, "maximum"), _fold_of(powers, "add")
    first = _product_under(scores)
    if shift is None or greatest is None or total is None or first is None:
        return None
    if not _fits(first, weights) or not _varies_with(shift, greatest):
        return None
    values = (*first.operands, first, scores, second.operands[1 - side], second)
    types = {value.shape.dtype for value in values}
    if not types <= TYPES or (F64 in types and len(types) > 1):
        return None  # one element type holds all sums
    return Attention(first, scores, greatest, shift, powers, total, scaling, second, side)


def _sums_last(dot: Instruction, side: int) -> bool:
    """Whether operand `side` is `[batch, m, n]` or `[m, n]`, and n is summed over."""
    given = dot.as_(DotAttributes)
    batch = (given.lhs_batch_dims, given.rhs_batch_dims)[side]
    summed = (given.lhs_contracting_dims, given.rhs_contracting_dims)[side]
    rank = dot.operands[side].shape.rank
    others = (given.lhs_free_dims, given.rhs_free_dims)[1 - side]
    has_columns = len(others(dot.operands[1 - side].shape.rank)) == 1
    return batch in ((), (0,)) and summed == (rank - 1,) and rank == len(batch) + 2 and has_columns


def _fits(first: Instruction, weights: Instruction) -> bool:
    """Whether the first product is canonical and has the weights' batch, rows and columns."""
    given = first.as_(DotAttributes)
    free = (
        given.lhs_free_dims(first.operands[0].shape.rank),
        given.rhs_free_dims(first.operands[1].shape.rank),
    )
    is_canonical = len(given.lhs_batch_dims) <= 1 and len(given.lhs_contracting_dims) == 1
    has_rows_and_columns = len(free[0]) == len(free[1]) == 1
    return is_canonical and has_rows_and_columns and first.shape.dims == weights.shape.dims


def _unshaped(item: Instruction) -> Instruction:
    """Return what an array is, reshaped along its rows or converted."""
    for _ in range(MOST_STEPS):
        is_wanted = item.opcode == "convert" or item.opcode in _RESHAPES
        if not is_wanted or not item.operands[0].shape.dims or not keeps_last(item):
            break
        item = item.operands[0]
    return item


def keeps_last(item: Instruction) -> bool:
    """Whether an op of one operand leaves the last dimension alone."""
    return item.shape.dims[-1:] == item.operands[0].shape.dims[-1:]


def row_of(item: Instruction) -> Instruction | None:
    """Return what an array repeats along its last dimension, or None."""
    if item.opcode != "broadcast":
        return None
    rank = item.shape.rank
    is_by_row = item.as_(DimensionsAttributes).dimensions == tuple(range(rank - 1))
    return item.operands[0] if is_by_row else None


def _fold_of(item: Instruction, op: str) -> Instruction | None:
    """Return the fold of an array's last dimension by `op`, made from its neutral element."""
    users = list(item.users)
    users += [user for other in users if other.opcode == "convert" for user in other.users]
    return next((user for user in users if _is_fold(user, item, op)), None)


def _is_fold(user: Instruction, item: Instruction, op: str) -> bool:
    if user.opcode != "reduce" or len(user.operands) != 2:
        return False
    if user.as_(ReduceAttributes).dimensions != (item.shape.rank - 1,):
        return False
    start = user.operands[1]
    is_plain = reducer_opcode(user.attributes.to_apply) == op and start.opcode == "constant"
    return is_plain and is_identity(start, op)


def _product_under(scores: Instruction) -> Instruction | None:
    """Return the one dot that scores are made of element by element, or None."""
    found: set[Instruction] = set()
    stack, seen = [scores], {scores}
    while stack:
        item = stack.pop()
        if item.opcode == "dot":
            found.add(item)
            continue
        for operand in _same_elements(item):
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
        if len(seen) > MOST_STEPS or len(found) > 1:
            return None
    return found.pop() if len(found) == 1 else None


def _same_elements(item: Instruction) -> Iterator[Instruction]:
    """Yield the operands whose elements an op reads in the same row-major order."""
    if item.opcode in _RESHAPES:
        if keeps_last(item):
            yield item.operands[0]
    elif item.opcode in _ELEMENTWISE:
        yield from (o for o in item.operands if o.shape.dims == item.shape.dims)


def _varies_with(shift: Instruction, greatest: Instruction) -> bool:
    """Whether a row's shift is computed from its greatest score and constants alone."""
    stack, seen = [shift], 0
    while stack:
        item = stack.pop()
        seen += 1
        if item.opcode == "broadcast":
            (item,) = item.operands
            if item.opcode != "constant":
                return False
        if item is greatest or item.opcode == "constant":
            continue
        if item.opcode not in _ELEMENTWISE or seen > MOST_STEPS:
            return False
        stack.extend(item.operands)
    return True
