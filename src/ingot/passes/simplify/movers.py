# SPDX-License-Identifier: Apache-2.0
"""Transposes and reshapes move behind the elementwise ops that follow.

A convolution wants its channels last, and gets transposes on each side where a front end has them
first. Each op between two convolutions (bias, normalization, activation, residual) may be the
result of a kernel, in memory: its layout there should be the one that convolutions read. So the
first transpose is moved behind the ops that follow it until it meets the second one, a reduction
that takes it in, or a result. It costs nothing if the op was read in that order anyway: a kernel
reads its operands or writes its result through any transpose.

    f(transpose(x), transpose(y), broadcast(z)) => transpose(f(x, y, broadcast(transpose(z))))

A layer of a sequence f32[batch,length,width] is a product of its batch * length rows, which is
reshaped before the bias, the activation and the residual are applied. A kernel of a product ends
with elementwise ops on the rows and columns of that product. So the reshape moves behind them. The
reshape of another operand costs nothing: the operand is in memory (an argument, or something with
other users). Only products without batch dimensions are followed, for attention is found by the
dimensions of its scores.

    f(reshape(dot), broadcast(bias), z) => reshape(f(dot, broadcast(bias), reshape(z)))

Ops on scalars stay: the product of two vectors has no rows to be reshaped.

They are passes and no rules, because the move of another operand is one more.

Invariant: elements are computed by the same ops; no value is computed twice.
Source: xla/hlo/transforms/simplifiers/reshape_mover.cc.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.analysis.common_factors import common_factors
from ingot.analysis.epilogues import ends_contraction
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.pass_base import PassContext, module_pass

Dims = tuple[int | Dim, ...]

_IN_MEMORY = ops_with(Trait.LEAF, also=("get-tuple-element",))


Move = Callable[[Instruction], Instruction | None]
"""Returns the move of an elementwise op on what its operands are moves of, None if it stays."""


def _move_all(module: Module, moved: Move) -> bool:
    """Replace elementwise ops, from operands to users, by moves of the op on other operands."""
    changed = False
    for computation in module.post_order():
        for op in computation.post_order():
            if op.has(Trait.ELEMENTWISE) and op.shape.is_array and not op.control_predecessors:
                made = moved(op)
                if made is not None:
                    computation.replace(op, made)
                    changed = True
    return changed


def _on_sources(
    op: Instruction, dims: Dims, source: Callable[[Instruction], Instruction]
) -> Instruction:
    """Add an op with the dimensions `dims` on the sources of its operands."""
    return op.computation.add(
        op.opcode,
        tuple(map(source, op.operands)),
        op.attributes,
        shape=op.shape.with_dims(dims),
        name=op.name,
        metadata=op.metadata,
    )


# ---- transposes


@module_pass("transpose-mover", "transpose")
def transpose_mover(module: Module, context: PassContext) -> bool:
    """Moves transposes of the operands of elementwise ops to their results."""
    return _move_all(module, _transposed)


def _transposed(op: Instruction) -> Instruction | None:
    """Return the transpose of the op, on the sources of its operands."""
    order = _common_order(op)
    if order is None:
        return None
    build = Builder(op.computation, op.metadata)
    sizes = tuple(op.shape.dims[order.index(number)] for number in range(len(order)))

    def source(operand: Instruction) -> Instruction:
        if operand.opcode == "transpose":
            return operand.operands[0]
        if not operand.shape.rank:
            return operand
        # A broadcast has its dimension numbers in order: its operand is transposed.
        dims = [order[dim] for dim in operand.as_(DimensionsAttributes).dimensions]
        permutation = tuple(sorted(range(len(dims)), key=dims.__getitem__))
        value = operand.operands[0]
        if permutation != tuple(range(len(dims))):
            value = build.transpose(value, dimensions=permutation)
        return build.broadcast_to(value, sizes, tuple(sorted(dims)))

    return build.transpose(_on_sources(op, sizes, source), dimensions=order)


def _common_order(op: Instruction) -> tuple[int, ...] | None:
    """Return the order in which all operands of an elementwise op are transposed.

    Broadcasts and scalars can have any. None if they have none, or several.
    """
    orders: set[tuple[int, ...]] = set()
    for operand in op.operands:
        if operand.opcode == "transpose":
            orders.add(operand.as_(DimensionsAttributes).dimensions)
        elif operand.opcode != "broadcast" and operand.shape.rank:
            return None
    return orders.pop() if len(orders) == 1 else None


# ---- reshapes of products


@module_pass("reshape-mover", "dot")
def reshape_mover(module: Module, context: PassContext) -> bool:
    """Moves reshapes of products from the operands of elementwise ops to their results."""
    return _move_all(module, _reshape_of)


def _reshape_of(op: Instruction) -> Instruction | None:
    """Return the reshape of the op, on the rows and columns of a product."""
    found = {one.operands[0].shape.dims for one in op.operands if _is_of_product(one)}
    if len(found) != 1 or not op.shape.rank:
        return None
    (dims,) = found
    if not all(_fits(operand, op.shape.dims, dims) for operand in op.operands):
        return None
    build = Builder(op.computation, op.metadata)
    made = _on_sources(op, dims, lambda one: _reshaped(one, op.shape.dims, dims, build))
    return build.reshape_to(made, op.shape.dims)


def _is_of_product(operand: Instruction) -> bool:
    """Whether an operand is the only reshape of a matrix, the product of two or made of it."""
    if operand.opcode != "reshape" or operand.use_count != 1:
        return False
    (matrix,) = operand.operands
    return matrix.shape.rank == 2 and matrix.use_count == 1 and ends_contraction(matrix)


def _fits(operand: Instruction, before: Dims, dims: Dims) -> bool:
    """Whether an operand with dimensions `before` is had as one with `dims` without moving it."""
    if not operand.shape.rank:
        return True
    if operand.opcode == "reshape" and operand.operands[0].shape.dims == dims:
        return True
    if operand.opcode == "broadcast":
        return _spread(operand, before, dims) is not None
    return operand.opcode in _IN_MEMORY or operand.use_count > 1


def _reshaped(operand: Instruction, before: Dims, dims: Dims, build: Builder) -> Instruction:
    """Return an operand that fits with the dimensions `dims`; a scalar as it is."""
    if not operand.shape.rank:
        return operand
    if operand.opcode == "reshape" and operand.operands[0].shape.dims == dims:
        return operand.operands[0]
    if operand.opcode == "broadcast":
        numbers = _spread(operand, before, dims)
        assert numbers is not None
        sizes = tuple(dims[number] for number in numbers)
        return build.broadcast_to(build.reshape_to(operand.operands[0], sizes), dims, numbers)
    return build.reshape_to(operand, dims)


def _spread(broadcast: Instruction, before: Dims, dims: Dims) -> tuple[int, ...] | None:
    """Return the dimensions of `dims` along which a broadcast to `before` varies.

    None if it varies along a part of one, as from row to row of a batch.
    """
    kept = broadcast.as_(DimensionsAttributes).dimensions
    if list(kept) != sorted(kept):
        return None
    numbers: list[int] = []
    for (start, end), (first, last) in common_factors(before, dims):
        varied = {number in kept for number in range(start, end) if before[number] != 1}
        if len(varied) > 1:
            return None
        if True in varied:
            numbers += range(first, last)
    return tuple(numbers)
