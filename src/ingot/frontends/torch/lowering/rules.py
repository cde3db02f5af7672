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
    elementwise,
    matmul,
    reduction,
    shaping,
    special,
)
from ingot.frontends.torch.lowering.op import Rule
from ingot.frontends.torch.lowering.table import merged

FAMILIES = (
    activation, arithmetic, bits, complex_numbers, elementwise, matmul, reduction, shaping,
    special,
)  # fmt: skip

RULES = merged(elementwise.PRIMS, *(family.RULES for family in FAMILIES))


def has_rule(target: Any) -> bool:
    """Whether an op is compiled."""
    return target is operator.getitem or str(target) in RULES


def find(target: Any) -> Rule:
    """Return the rule of an op that has one."""
    return RULES[str(target)]
