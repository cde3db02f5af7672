# SPDX-License-Identifier: Apache-2.0
"""Loops and branches whose state is of dynamic size: the sizes become elements of the state.

The state of a loop, the operand and the result of a branch get one s32[] for each dynamic
dimension, behind their own elements; the computations are copied and rewritten for that.

Source: xla/service/dynamic_dimension_inference.cc (HandleWhile, HandleConditional).
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.expand.dynamic_rewriter import Leaves, Rewriter, without_bounds

Carried = tuple[tuple[int, ...], int]
"""A dimension of dynamic size: the path of the array, the number of the dimension."""


def rewrite_while(rewriter: Rewriter, op: Instruction) -> None:
    """Let a loop carry the sizes of its state."""
    (start,), build = op.operands, rewriter.builder(op)
    carried = _carried(op.shape, rewriter.leaves.get(start, {}))
    bodies: list[Computation] = []
    for source in (op.attributes.condition, op.attributes.body):
        inner = _widened(rewriter, source, carried)
        inner.run()
        bodies.append(inner.computation)
        if source is op.attributes.body:
            root = inner.computation.root
            inner.computation.set_root(_with_sizes(inner, root, carried))
    wide = _with_sizes(rewriter, start, carried)
    made = build.while_(wide, condition=bodies[0], body=bodies[1])
    made.extra = dict(op.extra)
    _narrowed(rewriter, op, made, carried)


def rewrite_conditional(rewriter: Rewriter, op: Instruction) -> None:
    """Let branches take and give sizes."""
    index, *operands = op.operands
    inner: list[Rewriter] = []
    wide: list[Instruction] = []
    for source, operand in zip(op.attributes.branch_computations, operands, strict=True):
        carried = _carried(operand.shape, rewriter.leaves.get(operand, {}))
        branch = _widened(rewriter, source, carried)
        branch.run()
        inner.append(branch)
        wide.append(_with_sizes(rewriter, operand, carried))
    given = [_carried(op.shape, b.leaves.get(b.computation.root, {})) for b in inner]
    carried = sorted({dim for dimensions in given for dim in dimensions})
    for branch in inner:
        root = branch.computation.root
        branch.computation.set_root(_with_sizes(branch, root, carried))
    made = rewriter.builder(op).conditional(
        index, *wide, branch_computations=tuple(branch.computation for branch in inner)
    )
    made.extra = dict(op.extra)
    _narrowed(rewriter, op, made, carried)


def _carried(shape: Shape, leaves: Leaves) -> list[Carried]:
    """Return the dimensions that are dynamic or declared to be."""
    found: set[Carried] = {(path, dim) for path, sizes in leaves.items() for dim in sizes}
    for path, leaf in shape.leaves():
        found |= {(path, dim) for dim, flag in enumerate(leaf.bounded) if flag}
    return sorted(found)


def _widened(rewriter: Rewriter, source: Computation, carried: Sequence[Carried]) -> Rewriter:
    """Return the rewriter of a copy that takes `carried` sizes with its parameter."""
    copy = rewriter.module.take(source.clone())
    inner = Rewriter(rewriter.module, copy, rewriter.rules)
    if not carried:
        return inner
    (parameter,) = copy.parameters
    narrow, users = parameter.shape, list(parameter.users)
    elements = narrow.elements if narrow.is_tuple else (narrow,)
    sizes = (Shape.array(S32, ()),) * len(carried)
    copy.set_shape(parameter, Shape.tuple((*map(without_bounds, elements), *sizes)))
    state, leaves = _state(inner, parameter, narrow, carried)
    inner.leaves[state] = leaves
    for user in users:
        for number, operand in enumerate(user.operands):
            if operand is parameter:
                copy.replace_operand(user, number, state)
    if copy.root is parameter:
        copy.set_root(state)
    return inner


def _state(
    rewriter: Rewriter, wide: Instruction, narrow: Shape, carried: Sequence[Carried]
) -> tuple[Instruction, Leaves]:
    """Return a value without the sizes after its elements, and the sizes by path and dimension."""
    build = Builder(rewriter.computation, wide.metadata)
    parts = build.elements_of(wide)
    leaves: Leaves = {}
    for size, (path, dim) in zip(parts[-len(carried) :], carried, strict=True):
        leaves.setdefault(path, {})[dim] = rewriter.size(size)
    return build.value_of(parts[: -len(carried)], narrow), leaves


def _with_sizes(rewriter: Rewriter, value: Instruction, carried: Sequence[Carried]) -> Instruction:
    """Return a value with sizes after its elements; static dimensions have their full size."""
    if not carried:
        return value
    build = Builder(rewriter.computation, value.metadata)
    leaves = rewriter.leaves.get(value, {})
    return build.tuple(*build.elements_of(value), *(
        rewriter.number(leaves.get(path, {}).get(dim, value.shape.at(path).dims[dim]))
        for path, dim in carried
    ))  # fmt: skip


def _narrowed(
    rewriter: Rewriter, op: Instruction, made: Instruction, carried: Sequence[Carried]
) -> None:
    """Replace a loop or branch by its result without the sizes."""
    state, leaves = (made, {}) if not carried else _state(rewriter, made, op.shape, carried)
    rewriter.replace_leaves(op, state, leaves)
