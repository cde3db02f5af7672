# SPDX-License-Identifier: Apache-2.0
"""Assertions of values: the program ends with PyTorch's message where one does not hold.

PyTorch writes them itself, too: `one_hot` checks its numbers. Its kernels refuse extremes of no
elements, which a fold would give as infinities; of a size that data decides, only the program sees
that there are none.
"""

from __future__ import annotations

from torch.fx.experimental.symbolic_shapes import statically_known_true

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.torch.fx.nodes import value_of
from ingot.frontends.torch.fx.sizes import size_of
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

NO_ELEMENTS = "to have non-zero size"
"""Part of the message of an op along a dimension without elements; see `torch.errors`."""


def assert_elements(op: Op, dim: int | None) -> None:
    """Let the program fail if the op's first argument has no elements along `dim`, or none at all.

    Raises:
        UnsupportedError: INGOT0372, it is known to have none; PyTorch's kernel refuses it.
    """
    value, name = value_of(op.node.args[0]), op.node.target._schema.name.split("::")[1]
    if value.dim() == 0:
        return
    if dim is None:
        count = value.numel()
        problem = (
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    else:
        axis = op.axis(dim, value.dim())
        count = value.shape[axis]
        problem = f"{name}(): Expected reduction dim {axis} {NO_ELEMENTS}."
    if statically_known_true(count != 0):
        return
    if isinstance(count, int):
        raise op.error(problem)
    assert_everywhere(op.b, op.b.compared("NE", op.b.size(size_of(count)), 0), problem)


@RULES.rule("_assert_async", "_assert_async.msg")
def _assert_async(
    op: Op,
    value: Instruction,
    assert_msg: str = "Expected Tensor with single nonzero value, but got zero",
) -> None:
    assert_everywhere(op.b, op.b.to_pred(value), assert_msg)
