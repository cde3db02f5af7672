# SPDX-License-Identifier: Apache-2.0
"""Reductions over dimensions: sums, products, extremes, truth."""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import wider
from ingot.frontends.torch.lowering.op import Op, Rule
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

Dims = Sequence[int] | int | None


def _folded(op: Op, opcode: str, x: Instruction, dim: Dims, keepdim: bool) -> Instruction:
    return op.b.reduced(opcode, x, op.axes(dim, x.shape.rank), keep=keepdim)


@RULES.rule("sum", "sum.dim_IntList")
def _sum(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
    axes = op.axes(dim, x.shape.rank)
    return op.b.summed(op.b.convert_to(x, op.dtype), axes, keep=keepdim)


@RULES.rule("mean", "mean.dim")
def _mean(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
    b, element = op.b, op.dtype
    axes = op.axes(dim, x.shape.rank)
    wide = wider(element)
    total = b.reduced("add", b.convert_to(x, wide), axes, keep=keepdim)
    count = 1
    for axis in axes:
        count = count * x.shape.dims[axis]
    return b.convert_to(b.divide(total, b.like(count, total.shape)), element)


def _extreme(opcode: str) -> Rule:
    def rule(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
        return _folded(op, opcode, x, dim, keepdim)

    return rule


RULES.add(_extreme("maximum"), "amax", "max")
RULES.add(_extreme("minimum"), "amin", "min")


def _truth(opcode: str) -> Rule:
    def rule(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
        found = _folded(op, opcode, op.b.truth(x), dim, keepdim)
        # PyTorch gives u8 for u8, and bool for all other types.
        return found if op.dtype is PRED else op.b.convert_to(found, op.dtype)

    return rule


RULES.add(_truth("or"), "any", "any.dim", "any.dims")
RULES.add(_truth("and"), "all", "all.dim", "all.dims")


@RULES.rule("prod", "prod.dim_int")
def _prod(op: Op, x: Instruction, dim: Dims = None, keepdim: bool = False) -> Instruction:
    return _folded(op, "multiply", op.b.convert_to(x, op.dtype), dim, keepdim)
