# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention and its gradient, as products around a softmax.

Queries are `[batch, heads, queries, depth]`, keys and values `[batch, heads, keys, depth]`; with
fewer heads of keys, a group of query heads shares one (grouped-query attention). Scores, softmax
and sums are f32 for half types. A row whose scores are all masked gives zeros.
Source: PyTorch's `aten/src/ATen/native/cpu/FlashAttentionKernel.cpp`; Dao et al.,
"FlashAttention", 2022, appendix B, for the gradient.
"""

from __future__ import annotations

import math

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.products import dot
from ingot.frontends.torch.fx.sizes import Size, Sizes
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import PRED, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.support.records import record

RULES = RuleTable("aten")


@record
class _Attention:
    """The operands of one attention; queries are `[batch, key heads, group * queries, depth]`.

    Attributes:
        op: the node.
        query, key, value: the operands; heads of queries that share a key head are side by side.
        heads: the heads of queries.
        group: the number of query heads that share a key head.
        scale: factor of the scores.
        wide: the element type of scores.
    """

    op: Op
    query: Instruction
    key: Instruction
    value: Instruction
    heads: Size
    group: int
    scale: float | Instruction
    wide: DType

    @staticmethod
    def of(
        op: Op,
        query: Instruction,
        key: Instruction,
        value: Instruction,
        dropout: float,
        scale: float | None,
    ) -> _Attention:
        if dropout:
            raise op.error("attention with dropout draws random numbers")
        if key.shape.dims[:3] != value.shape.dims[:3] or query.shape.dims[0] != key.shape.dims[0]:
            raise op.error(f"{query.shape}, {key.shape} and {value.shape} do not fit together")
        heads, shared = query.shape.dims[1], key.shape.dims[1]
        group = dim_math.exact_quotient(heads, shared) if shared != 0 else None
        if not isinstance(group, int):
            raise op.error(f"{heads} heads of queries do not share {shared} heads of keys")
        wide = wider(query.shape.dtype)
        factor = _factor(op, query.shape.dims[3], wide) if scale is None else scale
        made = _Attention(op, query, key, value, heads, group, factor, wide)
        grouped = made.grouped(query)
        return _Attention(op, grouped, key, value, heads, group, factor, wide)

    def grouped(self, x: Instruction) -> Instruction:
        """Return `[batch, heads, queries, n]` as `[batch, key heads, group * queries, n]`."""
        batch, heads, rows, last = x.shape.dims
        dims = (batch, dim_math.floordiv(heads, self.group), rows * self.group, last)
        return self.op.b.reshape_to(x, dims)

    def apart(self, x: Instruction, last: Sizes) -> Instruction:
        """Return `[batch, key heads, group * queries, ..]` as `[batch, heads, queries, *last]`."""
        batch, _, rows = x.shape.dims[:3]
        dims = (batch, self.heads, dim_math.floordiv(rows, self.group), *last)
        return self.op.b.reshape_to(x, dims)

    def product(
        self, left: Instruction, right: Instruction, summed: tuple[int, int], element: DType
    ) -> Instruction:
        """Return the product per batch and head."""
        contracting = ((summed[0],), (summed[1],))
        return dot(self.op.b, left, right, contracting, ((0, 1), (0, 1)), element)

    def scores(self, mask: Instruction | None, causal: bool) -> Instruction:
        """Return scaled and masked scores, `[batch, key heads, group * queries, keys]`."""
        b = self.op.b
        made = self.product(self.query, self.key, (3, 3), self.wide)
        made = b.binary("multiply", made, self.scale)
        if mask is None and not causal:
            return made
        keys = made.shape.dims[3]
        whole = self.apart(made, (keys,))
        dims = whole.shape.dims
        lowest = b.like(-math.inf, whole.shape)
        if mask is not None:
            given = b.spread(mask, dims)
            if mask.shape.dtype is PRED:
                whole = b.select(given, whole, lowest)
            else:
                whole = b.add(whole, b.convert_to(given, self.wide))
        if causal:
            rows, columns = (b.iota_of(S32, dims, axis) for axis in (2, 3))
            whole = b.select(b.compare(columns, rows, direction="LE"), whole, lowest)
        return b.reshape_to(whole, made.shape.dims)


def _factor(op: Op, depth: Size, element: DType) -> float | Instruction:
    """Return the factor of scores: 1 over the square root of the heads' depth."""
    if isinstance(depth, int):
        return 1 / math.sqrt(max(depth, 1))
    return op.b.rsqrt(op.b.scalar(depth, element))


_ROWS = (0, 1, 2)


@RULES.rule("_scaled_dot_product_flash_attention_for_cpu")
def _attention(
    op: Op,
    query: Instruction,
    key: Instruction,
    value: Instruction,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: Instruction | None = None,
    scale: float | None = None,
) -> tuple[Instruction, Instruction]:
    """Return the attention, and the logarithm of each row's sum for the gradient."""
    b = op.b
    if 0 in (*query.shape.dims, *key.shape.dims, *value.shape.dims):
        raise op.error("an operand is empty")
    made = _Attention.of(op, query, key, value, dropout, scale)
    scores = made.scores(attn_mask, causal)
    dims = scores.shape.dims
    greatest = b.reduced("maximum", scores, (3,))
    if attn_mask is not None:
        greatest = _finite(op, greatest)
    powers = b.exponential(b.subtract(scores, b.spread(greatest, dims, _ROWS)))
    total = b.reduced("add", powers, (3,))
    divisor = total
    if attn_mask is not None:
        divisor = b.select(b.compared("EQ", total, 0), b.like(1, total.shape), total)
    weights = b.divide(powers, b.spread(divisor, dims, _ROWS))
    weights = b.convert_to(weights, value.shape.dtype)
    found = made.product(weights, value, (3, 2), op.shape_of(0).dtype)
    logarithm = b.add(greatest, b.log(total))
    shape = op.shape_of(1)
    return (
        made.apart(found, (value.shape.dims[3],)),
        b.convert_to(made.apart(logarithm, ()), shape.dtype),
    )


def _finite(op: Op, rows: Instruction) -> Instruction:
    """Return rows with minus infinity, the value of rows without scores, replaced by 0."""
    b = op.b
    none = b.compared("EQ", rows, -math.inf)
    return b.select(none, b.zeros(rows.shape), rows)


@RULES.rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def _attention_backward(
    op: Op,
    gradient: Instruction,
    query: Instruction,
    key: Instruction,
    value: Instruction,
    out: Instruction,
    logarithm: Instruction,
    dropout: float,
    causal: bool,
    *,
    attn_mask: Instruction | None = None,
    scale: float | None = None,
) -> tuple[Instruction, ...]:
    """Return the gradients for query, key and value; weights are recomputed from scores."""
    b = op.b
    made = _Attention.of(op, query, key, value, dropout, scale)
    wide, element = made.wide, query.shape.dtype
    scores = made.scores(attn_mask, causal)
    dims = scores.shape.dims
    rows = b.reshape_to(b.convert_to(logarithm, wide), dims[:3])
    if attn_mask is not None:
        rows = _finite(op, rows)
    weights = b.exponential(b.subtract(scores, b.spread(rows, dims, _ROWS)))
    dy = made.grouped(gradient)
    both = b.multiply(b.convert_to(gradient, wide), b.convert_to(out, wide))
    shift = b.reshape_to(b.reduced("add", both, (3,)), dims[:3])
    value_gradient = made.product(b.convert_to(weights, element), dy, (2, 2), element)
    change = made.product(dy, value, (3, 3), wide)
    change = b.multiply(weights, b.subtract(change, b.spread(shift, dims, _ROWS)))
    change = b.convert_to(b.binary("multiply", change, made.scale), element)
    query_gradient = made.product(change, key, (3, 2), element)
    key_gradient = made.product(change, made.query, (2, 2), element)
    return made.apart(query_gradient, (query.shape.dims[3],)), key_gradient, value_gradient
