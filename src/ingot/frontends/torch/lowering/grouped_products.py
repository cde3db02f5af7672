# SPDX-License-Identifier: Apache-2.0
"""Products of groups, as mixtures of experts make them: `_grouped_mm` is a `ragged-dot`.

PyTorch's offsets say where each group ends. Rows, columns or factors behind the last group belong
to none: the result is zero there, where PyTorch leaves what the memory holds.

Example:
    rows f32[6,k] of groups that end at 5 and 6, matrices f32[2,k,n]:
    rows 0-4 times matrix 0, row 5 times matrix 1
"""

from __future__ import annotations

from ingot.frontends.building.products import dot
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("aten")


@RULES.rule("_grouped_mm")
def _grouped_mm(
    op: Op,
    x: Instruction,
    y: Instruction,
    offsets: Instruction | None = None,
    bias: Instruction | None = None,
    out_dtype: object = None,
) -> Instruction:
    del out_dtype  # the result's
    if bias is not None:
        raise op.error("it adds a bias")
    b = op.b
    if offsets is None:
        return dot(b, x, y, ((2,), (1,)), ((0,), (0,)), op.dtype)
    sizes = b.subtract(offsets, _shifted(op, offsets))
    if x.shape.rank == y.shape.rank == 2:
        return _ragged(op, x, y, sizes, contracting=(1, 0), groups=())
    if x.shape.rank == 2:
        return _ragged(op, x, y, sizes, contracting=(1, 1), groups=(0,))
    # Columns are in groups: the same, transposed.
    transposed = _ragged(
        op, b.transposed(y, (1, 0)), x, sizes, contracting=(1, 2), groups=(0,), transposed=True
    )
    return b.transposed(transposed, (1, 0))


def _shifted(op: Op, offsets: Instruction) -> Instruction:
    """Return for each group where the one before it ends; 0 for the first."""
    b = op.b
    return b.pad(offsets, b.constant(0, offsets.shape.dtype), padding=((1, -1, 0),))


def _ragged(
    op: Op,
    x: Instruction,
    y: Instruction,
    sizes: Instruction,
    *,
    contracting: tuple[int, int],
    groups: tuple[int, ...],
    transposed: bool = False,
) -> Instruction:
    """Return the `ragged-dot`; without a dimension of groups in `y`, factors are in groups."""
    left, right = contracting
    dims = op.dims[::-1] if transposed else op.dims
    return op.b.emit(
        "ragged-dot",
        x,
        y,
        sizes,
        shape=Shape.array(op.dtype, dims),
        lhs_contracting_dims=(left,),
        rhs_contracting_dims=(right,),
        lhs_ragged_dims=(0 if groups else left,),
        rhs_group_dims=groups,
    )
