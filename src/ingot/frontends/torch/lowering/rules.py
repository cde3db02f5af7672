# SPDX-License-Identifier: Apache-2.0
"""Every rule: the families' tables as one."""

from __future__ import annotations

import operator
from typing import Any

from torch._ops import HigherOrderOperator

from ingot.frontends.torch.lowering import (
    activation,
    adaptive_pooling,
    arithmetic,
    assertions,
    attention,
    bits,
    columns,
    complex_numbers,
    convolution,
    cumulative,
    diagonals,
    distances,
    distinct,
    elementwise,
    embedding_bag,
    fused_layers,
    grid_sampling,
    grouped_products,
    higher_order,
    indexing,
    jagged,
    linalg,
    masks,
    matmul,
    normalization,
    overlap_add,
    packed_weights,
    padding,
    pooling,
    pseudoinverse,
    reduction,
    resampling,
    scatter,
    searching,
    shaping,
    softmax,
    sorting,
    special,
    spectral,
    strides,
)
from ingot.frontends.torch.lowering.op import Rule
from ingot.frontends.torch.lowering.table import merged, with_copies

_POINTWISE = (activation, arithmetic, bits, complex_numbers, elementwise, special)
_FOLDS = (cumulative, reduction, softmax, sorting)
_MOVES = (
    columns, diagonals, distinct, embedding_bag, indexing, jagged, masks, overlap_add, scatter,
    searching, shaping, strides,
)  # fmt: skip
_NETWORKS = (
    adaptive_pooling, attention, convolution, fused_layers, grid_sampling, normalization, padding,
    pooling, resampling,
)  # fmt: skip
_PRODUCTS = (
    distances, grouped_products, linalg, matmul, packed_weights, pseudoinverse, spectral,
)  # fmt: skip
FAMILIES = (
    *_POINTWISE, *_FOLDS, *_MOVES, *_NETWORKS, *_PRODUCTS, assertions, higher_order,
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
