# SPDX-License-Identifier: Apache-2.0
"""Reshapes of matrix products move behind the elementwise ops that follow: they end the product.

A layer of a sequence f32[batch,length,width] is a product of its batch * length rows, which is
reshaped before the bias, the activation and the residual are applied. A kernel of a product ends
with elementwise ops on the rows and columns of that product. So the reshape moves behind them:

    f(reshape(dot), broadcast(bias), z) => reshape(f(dot, broadcast(bias), reshape(z)))

It is a pass and no rule, because the reshape of another operand is one more. That costs nothing:
the operand is in memory (an argument, or something with other users). Only products without batch
dimensions are followed, for attention is found by the dimensions of its scores.

Invariant: elements are computed by the same ops; no value is computed twice.
Source: xla/hlo/transforms/simplifiers/reshape_mover.cc.
"""

from __future__ import annotations

from ingot.analysis.common_factors import common_factors
from ingot.analysis.epilogues import ends_contraction
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.support.records import record

Dims = tuple[int | Dim, ...]

_IN_MEMORY = ops_with(Trait.LEAF, also=("get-tuple-element",))


@record
class ReshapeMover(Pass):
    """Moves reshapes of products from the operands of elementwise ops to their results."""

    name = "reshape-mover"
    concerns = frozenset({"dot"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite every reachable computation, from operands to users."""
        changed = False
        for computation in module.post_order():
            for item in computation.post_order():
                made = None if item.control_predecessors else _moved(item)
                if made is not None:
                    computation.replace(item, made)
                    changed = True
        return changed


def _moved(op: Instruction) -> Instruction | None:
    """Return the reshape of the op, on the rows and columns of a product; None if it stays."""
    if not op.has(Trait.ELEMENTWISE) or not op.shape.is_array:
        return None
    found = {operand.operands[0].shape.dims for operand in op.operands if _is_of_product(operand)}
    if len(found) != 1:
        return None
    (dims,) = found
    if not all(_fits(operand, op.shape.dims, dims) for operand in op.operands):
        return None
    build = Builder(op.computation, op.metadata)
    made = op.computation.add(
        op.opcode,
        tuple(_reshaped(operand, op.shape.dims, dims, build) for operand in op.operands),
        op.attributes,
        shape=op.shape.with_dims(dims),
        name=op.name,
        metadata=op.metadata,
    )
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
