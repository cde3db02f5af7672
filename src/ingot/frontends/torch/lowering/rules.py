# SPDX-License-Identifier: Apache-2.0
"""Every rule: the families' tables as one."""

from __future__ import annotations

import operator
from typing import Any

from torch._ops import HigherOrderOperator

from ingot.frontends.torch.lowering import assertions, higher_order
from ingot.frontends.torch.lowering.context.op import Rule
from ingot.frontends.torch.lowering.context.table import merged, with_copies
from ingot.frontends.torch.lowering.indexing_ops import (
    diagonals,
    distinct,
    indexing,
    jagged,
    masks,
    overlap_add,
    scatter,
    searching,
    shaping,
    strides,
)
from ingot.frontends.torch.lowering.linalg_ops import (
    distances,
    grouped_products,
    linalg,
    matmul,
    packed_weights,
    pseudoinverse,
    spectral,
)
from ingot.frontends.torch.lowering.nn_ops import (
    adaptive_pooling,
    attention,
    columns,
    convolution,
    embedding_bag,
    fused_layers,
    grid_sampling,
    normalization,
    padding,
    pooling,
    resampling,
)
from ingot.frontends.torch.lowering.pointwise_ops import (
    activation,
    arithmetic,
    bits,
    complex_numbers,
    elementwise,
    special,
)
from ingot.frontends.torch.lowering.reduction_ops import cumulative, reduction, softmax, sorting

_POINTWISE = (activation, arithmetic, bits, complex_numbers, elementwise, special)
_REDUCTIONS = (cumulative, reduction, softmax, sorting)
_INDEXING = (
    diagonals, distinct, indexing, jagged, masks, overlap_add, scatter, searching, shaping, strides,
)  # fmt: skip
_NETWORKS = (
    adaptive_pooling, attention, columns, convolution, embedding_bag, fused_layers, grid_sampling,
    normalization, padding, pooling, resampling,
)  # fmt: skip
_MATRICES = (
    distances, grouped_products, linalg, matmul, packed_weights, pseudoinverse, spectral,
)  # fmt: skip
FAMILIES = (
    *_POINTWISE, *_REDUCTIONS, *_INDEXING, *_NETWORKS, *_MATRICES, assertions, higher_order,
)  # fmt: skip

_OTHERS = (elementwise.PRIMS, higher_order.INTERNAL, grouped_products.TRANSFORMERS)

RULES = with_copies(merged(*_OTHERS, *(family.RULES for family in FAMILIES)))


def has_rule(target: Any) -> bool:
    """Whether an op is compiled."""
    return target is operator.getitem or _key(target) in RULES


def find(target: Any) -> Rule:
    """Return the rule of an op that has one."""
    return RULES[_key(target)]


def _key(target: Any) -> str:
    if isinstance(target, HigherOrderOperator):
        return f"higher_order.{target.name()}.default"
    return str(target)
