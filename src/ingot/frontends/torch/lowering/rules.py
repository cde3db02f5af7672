# SPDX-License-Identifier: Apache-2.0
"""Every rule: the families' tables as one."""

from __future__ import annotations

import operator
from typing import Any

from ingot.frontends.torch.lowering import (
    activation,
    arithmetic,
    bits,
    complex_numbers,
    cumulative,
    diagonals,
    distances,
    elementwise,
    embedding_bag,
    indexing,
    matmul,
    reduction,
    scatter,
    searching,
    shaping,
    softmax,
    sorting,
    special,
    strides,
)
from ingot.frontends.torch.lowering.op import Rule
from ingot.frontends.torch.lowering.table import merged

_POINTWISE = (activation, arithmetic, bits, complex_numbers, elementwise, special)
_FOLDS = (cumulative, reduction, softmax, sorting)
_MOVES = (diagonals, embedding_bag, indexing, scatter, searching, shaping, strides)
_PRODUCTS = (distances, matmul)
FAMILIES = (*_POINTWISE, *_FOLDS, *_MOVES, *_PRODUCTS)

RULES = merged(elementwise.PRIMS, *(family.RULES for family in FAMILIES))


def has_rule(target: Any) -> bool:
    """Whether an op is compiled."""
    return target is operator.getitem or str(target) in RULES


def find(target: Any) -> Rule:
    """Return the rule of an op that has one."""
    return RULES[str(target)]
