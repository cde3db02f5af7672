# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps on rows of variables: `ResourceSparseApply*`, as gradients of embeddings give.

An op is the dense one of its name (`optimizers`) on the rows that `indices` choose. TensorFlow's
kernels go from index to index, so a row that is chosen again sees what the first step wrote. Here
the indices are sorted, and in each round of a loop all rows are updated together: those that are
chosen for the first time, then those for the second time, and so on. There is one round where no
index is there twice.

Source: TensorFlow's `kernels/training_ops.cc`.
"""

from __future__ import annotations

from copy import copy

from ingot.frontends.building.arrays import counts_up
from ingot.frontends.building.indexing import take
from ingot.frontends.building.scans import scan
from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value, Variable
from ingot.frontends.tensorflow.lowering.indexing.index_checks import assert_inside
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.frontends.tensorflow.lowering.state_ops import optimizers
from ingot.frontends.tensorflow.lowering.state_ops.variables import read, write
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction

_INDICES = {
    "Adadelta": 7, "Adagrad": 4, "AdagradDA": 4, "AdagradV2": 5, "CenteredRMSProp": 9, "Ftrl": 4,
    "FtrlV2": 4, "KerasMomentum": 4, "Momentum": 4, "ProximalAdagrad": 6,
    "ProximalGradientDescent": 5, "RMSProp": 8,
}  # fmt: skip
"""By the op's name, which operand the indices are; the gradient is the one before them."""


def _on_rows(rule: Rule, indices_at: int) -> Rule:
    """Return the rule that applies the dense `rule` to chosen rows.

    Args:
        rule: updates all rows of its variables.
        indices_at: the number of the operand that chooses rows.
    """

    def sparse(op: Op) -> tuple[Value, ...]:
        b, variables = op.b, [item for item in op.values if isinstance(item, Variable)]
        olds = [read(op, n) for n in range(len(variables))]
        indices, gradient = op.tensor(indices_at), op.tensor(indices_at - 1)
        _check(op, olds[0], indices, gradient)
        if indices.shape.dims == (0,):
            return ()
        rows, sources, times = _in_order(b, indices)
        rounds = b.binary("add", b.reduced("maximum", times, (0,)), 1)
        operands = op.tensors(len(variables))
        del operands[indices_at - len(variables)]
        operands[indices_at - 1 - len(variables)] = take(b, gradient, sources)

        def step(inner: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
            number, rounds, rows, times, *rest = state
            values, operands = rest[: len(olds)], rest[len(olds) :]
            taken = [take(inner, value, rows) for value in values]
            dense = copy(op)
            dense.b, dense.values, dense.frame = inner, [*variables, *operands], copy(op.frame)
            dense.frame.state = dict(zip(variables, taken, strict=True))
            rule(dense)
            due = inner.compare(times, inner.spread(number, times.shape.dims), direction="EQ")
            # A scatter drops what is out of range.
            targets = inner.select(due, rows, inner.like(-1, rows.shape))
            made: list[Instruction] = []
            for old, before, variable in zip(values, taken, variables, strict=True):
                after = read(dense, variables.index(variable))
                kept = after is before
                made.append(old if kept else scatter_rows(dense, "update", old, targets, after))
            return [inner.binary("add", number, 1), rounds, rows, times, *made, *operands]

        start = [b.constant(0, S32), rounds, rows, times, *olds, *operands]
        done = b.loop(start, counts_up, step)
        for number in range(len(variables)):
            write(op, done[4 + number], number)
        return ()

    return sparse


def _check(op: Op, old: Instruction, indices: Instruction, gradient: Instruction) -> None:
    """Hold the operands to what TensorFlow's kernels demand of them."""
    if old.shape.rank == 0:
        raise op.mistake("var must be at least 1 dimensional")
    if indices.shape.rank != 1:
        raise op.mistake("indices must be one-dimensional")
    (count,), wanted = indices.shape.dims, old.shape.dims[1:]
    dims = gradient.shape.dims
    if len(dims) != old.shape.rank or not all(map(op.b.same, dims[1:], wanted)):
        raise op.mistake(f"var and grad must match in their inner dimensions: {old.shape}")
    if not op.b.same(dims[0], count):
        raise op.mistake("grad must be the same size as indices in the first dimension.")
    assert_inside(op.b, indices, old.shape.dims[0])


def _in_order(b: TensorBuilder, indices: Instruction) -> list[Instruction]:
    """Return the indices sorted, where each was, and how often the same came before (s32)."""
    (count,) = indices.shape.dims
    numbers = b.iota_of(S32, (count,), 0)
    ordered = sort_by_first(b, (indices, numbers), 0)
    rows, sources = (b.element_of(ordered, n) for n in range(2))
    before = b.shifted(rows, 0, 1, b.scalar(-1, rows.shape.dtype))
    is_new = b.compare(rows, before, direction="NE")
    starts = b.select(is_new, numbers, b.zeros(numbers.shape))
    first = scan(b, starts, 0, lambda inner, x, y: inner.maximum(x, y), 0)
    return [rows, sources, b.subtract(numbers, first)]


RULES: dict[str, Rule] = {
    f"ResourceSparseApply{name}": _on_rows(optimizers.RULES[f"ResourceApply{name}"], indices_at)
    for name, indices_at in _INDICES.items()
}
