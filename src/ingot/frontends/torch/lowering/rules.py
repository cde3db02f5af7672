# SPDX-License-Identifier: Apache-2.0
"""Every rule: the families' tables as one."""

from __future__ import annotations

import operator
from typing import Any

from ingot.frontends.torch.lowering import (
    adaptive_pooling,
    attention,
    convolution,
    elementwise,
    fused_layers,
    grid_sampling,
    linalg,
    matmul,
    normalization,
    padding,
    pooling,
    reduction,
    resampling,
    shaping,
    spectral,
)
from ingot.frontends.torch.lowering.op import Rule
from ingot.frontends.torch.lowering.table import merged

FAMILIES = (
    adaptive_pooling,
    attention,
    convolution,
    elementwise,
    fused_layers,
    grid_sampling,
    linalg,
    matmul,
    normalization,
    padding,
    pooling,
    reduction,
    resampling,
    shaping,
    spectral,
)

RULES = merged(*(family.RULES for family in FAMILIES))


def has_rule(target: Any) -> bool:
    """Whether an op is compiled."""
    return target is operator.getitem or str(target) in RULES


def find(target: Any) -> Rule:
    """Return the rule of an op that has one."""
    return RULES[str(target)]
