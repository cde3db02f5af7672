# SPDX-License-Identifier: Apache-2.0
"""Assertions of values: the program ends with PyTorch's message where one does not hold.

PyTorch writes them itself, too: `one_hot` checks its numbers.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


@RULES.rule("_assert_async", "_assert_async.msg")
def _assert_async(
    op: Op,
    value: Instruction,
    assert_msg: str = "Expected Tensor with single nonzero value, but got zero",
) -> None:
    assert_everywhere(op.b, op.b.truth(value), assert_msg)
