# SPDX-License-Identifier: Apache-2.0
"""dot-canonicalizer: dots in the form that backends have native code for.

Native: at most one batch dimension, first in both operands; besides it one free and one contracting
dimension, in either order ([b,m,k] or [b,k,m] times [b,k,n] or [b,n,k]). Other dots are brought to
such a form by transposes and reshapes, after transposes of their operands are folded into their
dimension numbers.

Source: xla/service/dot_decomposer.cc, transpose_folding.cc.
"""

from __future__ import annotations

from functools import partial

from ingot.hlo import dim
from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.op_pass import in_order
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.passes.simplify.dots.sides import Side, dot_of, sides_of


@module_pass("dot-canonicalizer", "dot", ensures={"native-dots"})
def dot_canonicalizer(module: Module, context: PassContext) -> bool:
    """Folds transposes into dots and makes every dot native."""
    changed = False
    for computation in module.post_order():
        for dot in [i for i in computation.post_order() if i.opcode == "dot"]:
            changed = in_order(dot, partial(_canonicalize, dot)) or changed
        for transpose in [i for i in computation.post_order() if i.opcode == "transpose"]:
            changed = _swap(transpose) or changed
    return changed


def is_native(dot: Instruction) -> bool:
    """Whether backends support the dot as it is."""
    return all(side.is_native for side in sides_of(dot))


def _swap(transpose: Instruction) -> bool:
    """Replace (a b)^T by b^T a^T, whose operands are read in memory order.

    JAX's gradients of weights have this form; elementwise users can then fuse with the product.
    """
    (dot,) = transpose.operands
    is_only_use = dot.opcode == "dot" and dot.use_count == 1
    if not is_only_use or dot.control_predecessors or transpose.control_predecessors:
        return False
    lhs, rhs = sides_of(dot)
    batch, frees = len(lhs.batch), len(lhs.free)
    dimensions = tuple(range(dot.shape.rank))
    swapped = (
        *dimensions[:batch],
        *dimensions[batch + frees :],
        *dimensions[batch : batch + frees],
    )
    if transpose.attributes.dimensions != swapped or not (lhs.is_native and rhs.is_native):
        return False
    made = dot_of(dot, Builder(dot.computation, dot.metadata), (rhs, lhs), swapped=True)
    transpose.computation.replace(transpose, made)
    return True


def _canonicalize(dot: Instruction) -> bool:
    given = sides_of(dot)
    was_native = all(side.is_native for side in given)
    folded = (given[0].folded(), given[1].folded())
    if all(side.is_native for side in folded):
        if folded == given:
            return False
        _replace(dot, folded)
        return True
    if was_native:
        # Fold the operands one by one as far as the dot stays native.
        best = tuple(new if new.is_native else old for old, new in zip(given, folded, strict=True))
        if best == given:
            return False
        _replace(dot, (best[0], best[1]))
        return True
    build = Builder(dot.computation, dot.metadata)
    # The order of contracting dimensions is free: take it as the lhs has it in memory.
    contracting = folded[0].contracting
    order = sorted(range(len(contracting)), key=contracting.__getitem__)
    user = _only_transpose(dot)
    ordered = None if user is None else _in_order_of(user, folded)
    if user is None or ordered is None:
        user, ordered = dot, tuple((side, side.free) for side in folded)
    lhs, rhs = (_packed(side, order, free, build) for side, free in ordered)
    made = dot_of(dot, build, (lhs, rhs), swapped=ordered[0][0] is folded[1])
    dot.computation.replace(user, build.reshape_to(made, user.shape.dims))
    return True


def _only_transpose(dot: Instruction) -> Instruction | None:
    """Return the only use of a product if it is a transpose, else None."""
    if dot.use_count != 1:
        return None
    (user,) = dot.users
    return user if user.opcode == "transpose" and not user.control_predecessors else None


def _in_order_of(
    transpose: Instruction, sides: tuple[Side, Side]
) -> tuple[tuple[Side, tuple[int, ...]], ...] | None:
    """Return the sides of a transposed product as its result has them, with their free dimensions.

    None where its batch dimensions have another order, or free dimensions of both sides take
    turns, or a side would be moved for it that has its batch dimensions first.
    """
    order, batch = transpose.as_(DimensionsAttributes).dimensions, len(sides[0].batch)
    if order[:batch] != tuple(range(batch)):
        return None
    owners = [(side, free) for side in (0, 1) for free in sides[side].free]
    placed = [owners[number - batch] for number in order[batch:]]
    sequence = [side for side, _ in placed]
    if sequence != sorted(sequence, reverse=sequence[:1] == [1]):
        return None
    frees = [tuple(free for side, free in placed if side == number) for number in (0, 1)]
    ordered = tuple(zip(sides, frees, strict=True))
    if any(side.free != free and _stays(side, order[:batch]) for side, free in ordered):
        return None
    return ordered[::-1] if sequence[:1] == [1] else ordered


def _packed(side: Side, order: list[int], free: tuple[int, ...], build: Builder) -> Side:
    """Return the operand as [batch, free, contracting] or [batch, contracting, free]."""
    contracting = tuple(side.contracting[number] for number in order)
    free_first = (*side.batch, *free, *contracting)
    contracting_first = (*side.batch, *contracting, *free)
    value = side.value
    swapped = _lies(value, contracting_first) and not _lies(value, free_first)
    chosen = contracting_first if swapped else free_first
    if not _lies(value, chosen):
        value = build.transpose(value, dimensions=chosen)
    batch = (dim.product(side.sizes(side.batch)),) if side.batch else ()
    sizes = (dim.product(side.sizes(side.free)), dim.product(side.sizes(contracting)))
    packed = build.reshape_to(value, (*batch, *(sizes[::-1] if swapped else sizes)))
    dimension = len(batch) + (0 if swapped else 1)
    return Side(packed, (0,) * len(batch), (dimension,))


def _stays(side: Side, batch: tuple[int, ...]) -> bool:
    """Whether an operand has its batch dimensions first, or need not be moved to be packed."""
    orders = (side.contracting, side.free), (side.free, side.contracting)
    is_packed = any(_lies(side.value, (*side.batch, *one, *other)) for one, other in orders)
    return side.batch == batch or is_packed


def _lies(value: Instruction, order: tuple[int, ...]) -> bool:
    """Whether a value's elements have this order of dimensions, but for those of extent 1."""
    proper = [number for number in order if value.shape.dims[number] != 1]
    return proper == sorted(proper)


def _replace(dot: Instruction, sides: tuple[Side, Side]) -> None:
    dot.computation.replace(dot, dot_of(dot, Builder(dot.computation, dot.metadata), sides))
