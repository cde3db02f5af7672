# SPDX-License-Identifier: Apache-2.0
"""Products of groups, as mixtures of experts make them: `_grouped_mm` is a `ragged-dot`.

PyTorch's offsets say where each group ends. Rows, columns or factors behind the last group belong
to none: the result is zero there, where PyTorch leaves what the memory holds. The package
`transformers` has an op of its own for what PyTorch does not compile (element types other than
bf16), and one for its gradients.

Example:
    rows f32[6,k] of groups that end at 5 and 6, matrices f32[2,k,n]:
    rows 0-4 times matrix 0, row 5 times matrix 1
"""

from __future__ import annotations

from ingot.frontends.building.products import dot
from ingot.frontends.torch.fx.layout import MemoryLayout
from ingot.frontends.torch.fx.nodes import Node, value_of
from ingot.frontends.torch.fx.sizes import sizes_of
from ingot.frontends.torch.lowering.context.builder import GraphBuilder
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

_MOST_MEAN_ROWS = {2: 32, 4: 4}
"""Rows of a group, on average, from which on PyTorch's products of one group after the other are
faster, by the bytes of an element: they do not pad the last tile of a group, and have less to gain
from the fused rest. Mixtral of 2 layers, f32, 16 rows: 0.9 times as fast compiled, and its training
step 0.9 to 1.0 (quiet, 2026-11-30); 64 rows 0.92 and 0.91. A layer of bf16: 2 rows 1.14 (training),
16 rows 1.29 and 1.02 to 1.27, 128 rows 0.87 and 0.85 (CPU time on a busy machine). All on an Intel
Xeon with AMX, one thread."""

RULES = RuleTable("aten")
TRANSFORMERS = RuleTable("transformers")


def is_faster_on_host(node: Node) -> bool:
    """Whether a node multiplies rows of a group by its matrix, and has many rows for each."""
    is_known = str(node.target) in RULES.rules or str(node.target) in TRANSFORMERS.rules
    if not is_known:
        return False
    x, weight = (value_of(item) for item in node.args[:2])
    if x.dim() != 2 or weight.dim() != 3:
        return False
    rows, groups = x.shape[0], weight.shape[0]
    if not isinstance(rows, int) or not isinstance(groups, int):
        return False
    return rows > _MOST_MEAN_ROWS.get(x.dtype.itemsize, 0) * groups


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
    sizes = _sizes(b, offsets)
    if x.shape.rank == y.shape.rank == 2:
        return _ragged(b, x, y, sizes, op.shape, contracting=(1, 0), groups=())
    if x.shape.rank == 2:
        return _ragged(b, x, y, sizes, op.shape, contracting=(1, 1), groups=(0,))
    # Columns are in groups: the same, transposed.
    rows = b.transposed(y, (1, 0))
    shape = Shape.array(op.dtype, op.dims[::-1])
    return b.transposed(_ragged(b, rows, x, sizes, shape, contracting=(1, 2)), (1, 0))


@TRANSFORMERS.rule("grouped_mm_fallback")
def _grouped_rows(op: Op, x: Instruction, weight: Instruction, ends: Instruction) -> Instruction:
    return _ragged(op.b, x, weight, _sizes(op.b, ends), op.shape, contracting=(1, 1))


@TRANSFORMERS.rule("grouped_mm_fallback_backward")
def _gradients_of_rows(
    op: Op, x: Instruction, weight: Instruction, ends: Instruction, gradient: Instruction
) -> tuple[Instruction, Instruction]:
    """Return the gradients for the rows and for each group's matrix."""
    b, sizes = op.b, _sizes(op.b, ends)
    of_rows = _ragged(b, gradient, weight, sizes, op.shape_of(0), contracting=(1, 2))
    shape, strides = op.shape_of(1), sizes_of(op.val[1].stride())
    if MemoryLayout.of(shape.dims, strides).order != (0, 2, 1):
        return of_rows, _ragged(b, x, gradient, sizes, shape, contracting=(0, 0), groups=())
    # The matrices lie in memory as a linear layer's do, transposed.
    groups, depth, width = shape.dims
    shape = shape.with_dims((groups, width, depth))
    transposed = _ragged(b, gradient, x, sizes, shape, contracting=(0, 0), groups=())
    return of_rows, b.transposed(transposed, (0, 2, 1))


def _sizes(b: GraphBuilder, ends: Instruction) -> Instruction:
    """Return how many rows each group has, which ends where the next one begins."""
    starts = b.pad(ends, b.constant(0, ends.shape.dtype), padding=((1, -1, 0),))
    return b.subtract(ends, starts)


def _ragged(
    b: GraphBuilder,
    x: Instruction,
    y: Instruction,
    sizes: Instruction,
    shape: Shape,
    *,
    contracting: tuple[int, int],
    groups: tuple[int, ...] = (0,),
) -> Instruction:
    """Return the `ragged-dot`; without a dimension of groups in `y`, factors are in groups."""
    left, right = contracting
    return b.emit(
        "ragged-dot",
        x,
        y,
        sizes,
        shape=shape,
        lhs_contracting_dims=(left,),
        rhs_contracting_dims=(right,),
        lhs_ragged_dims=(0 if groups else left,),
        rhs_group_dims=groups,
    )
