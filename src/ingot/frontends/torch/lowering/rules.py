# SPDX-License-Identifier: Apache-2.0
"""Every rule: the families' tables as one."""

from __future__ import annotations

import operator
from typing import Any

from torch._ops import HigherOrderOperator

from ingot.frontends.torch.lowering import (
    elementwise,
    higher_order,
    matmul,
    reduction,
    shaping,
)
from ingot.frontends.torch.lowering.op import Rule
from ingot.frontends.torch.lowering.table import merged

FAMILIES = (elementwise, higher_order, matmul, reduction, shaping)

RULES = merged(*(family.RULES for family in FAMILIES))


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
