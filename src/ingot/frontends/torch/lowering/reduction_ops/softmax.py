# SPDX-License-Identifier: Apache-2.0
"""Softmax, log-softmax and their derivatives; half floats are computed in f32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.frontends.building import softmax
from ingot.frontends.torch.lowering.context.op import Op, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


def _axes(op: Op, dim: int, rank: int) -> tuple[int, ...]:
    return (op.axis(dim, rank),) if rank else ()


def _forward(compute: Callable[..., Instruction]) -> Rule:
    def rule(op: Op, x: Instruction, dim: int, half_to_float: bool) -> Instruction:
        del half_to_float  # the result's type shows it
        axes = _axes(op, dim, x.shape.rank)
        wide = op.b.convert_to(x, op.dtype)
        return compute(op.b, wide, axes)

    return rule


def _backward(compute: Callable[..., Instruction]) -> Rule:
    def rule(op: Op, dy: Instruction, y: Instruction, dim: int, input_dtype: Any) -> Instruction:
        del input_dtype
        made = compute(op.b, dy, y, _axes(op, dim, y.shape.rank))
        return op.b.convert_to(made, op.dtype)

    return rule


RULES.add(_forward(softmax.softmax), "_softmax")
RULES.add(_forward(softmax.log_softmax), "_log_softmax")
RULES.add(_backward(softmax.softmax_gradient), "_softmax_backward_data")
RULES.add(_backward(softmax.log_softmax_gradient), "_log_softmax_backward_data")
