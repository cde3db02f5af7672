# SPDX-License-Identifier: Apache-2.0
"""Batch normalization as arithmetic and reductions, which fuse with their neighbours.

Narrow floats are computed in f32. Statistics are taken in two passes (mean, then mean square of
the differences): the one-pass form loses all digits when the mean is large.

Source: xla/service/batchnorm_expander.cc; the formulas of the StableHLO specification.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo import dim
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import wider
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.passes.expand.counters import size_value


class _Parts:
    """The common parts of the three ops: wide operands, vectors broadcast over features, sums."""

    def __init__(self, op: Instruction, build: Builder, module: Module) -> None:
        self.build = build
        self.module = module
        self.element = wider(op.operands[0].shape.dtype)
        self.operands = [build.convert_to(operand, self.element) for operand in op.operands]
        self.shape: Shape = self.operands[0].shape
        self.feature: int = op.attributes.feature_index
        self.others = tuple(n for n in range(self.shape.rank) if n != self.feature)
        self.epsilon: float = op.attributes.exact_epsilon

    def narrow(self, value: Instruction, shape: Shape) -> Instruction:
        return self.build.convert_to(value, shape.dtype)

    def spread(self, vector: Instruction) -> Instruction:
        return self.build.broadcast_to(vector, self.shape.dims, (self.feature,))

    def total(self, value: Instruction) -> Instruction:
        add = self.module.take(scalar_computation("add", self.element))
        return self.build.reduce(value, 0, dimensions=self.others, to_apply=add)

    def count(self, like: Shape) -> Instruction:
        """Return the number of elements per feature, broadcast."""
        dynamic = [n for n in self.others if self.shape.bounded and self.shape.bounded[n]]
        number = dim.product(self.shape.dims[n] for n in self.others if n not in dynamic)
        scalar = self.build.convert_to(size_value(self.build, number), self.element)
        for dimension in dynamic:
            size = self.build.get_dimension_size(self.operands[0], dimensions=(dimension,))
            scalar = self.build.multiply(scalar, self.build.convert_to(size, self.element))
        return self.build.broadcast_to(scalar, like.dims, ())

    def inverse_deviation(self, variance: Instruction) -> Instruction:
        return self.build.rsqrt(self.build.add(variance, self.epsilon))

    def normalized(
        self,
        value: Instruction,
        scale: Instruction,
        offset: Instruction,
        mean: Instruction,
        variance: Instruction,
    ) -> Instruction:
        build = self.build
        centered = build.subtract(value, self.spread(mean))
        unit = build.multiply(centered, self.spread(self.inverse_deviation(variance)))
        return build.add(build.multiply(unit, self.spread(scale)), self.spread(offset))

    def inference(self) -> tuple[Instruction, ...]:
        return (self.normalized(*self.operands),)

    def training(self) -> tuple[Instruction, ...]:
        build = self.build
        value, scale, offset = self.operands
        mean = build.divide(self.total(value), self.count(scale.shape))
        centered = build.subtract(value, self.spread(mean))
        squares = self.total(build.multiply(centered, centered))
        variance = build.divide(squares, self.count(scale.shape))
        return self.normalized(value, scale, offset, mean, variance), mean, variance

    def gradients(self) -> tuple[Instruction, ...]:
        build = self.build
        value, scale, mean, variance, gradient = self.operands
        inverse = self.inverse_deviation(variance)
        centered = build.subtract(value, self.spread(mean))
        total = self.total(gradient)
        product = self.total(build.multiply(gradient, centered))
        count = self.count(scale.shape)
        slope = build.divide(build.multiply(product, build.multiply(inverse, inverse)), count)
        inner = build.subtract(gradient, self.spread(build.divide(total, count)))
        inner = build.subtract(inner, build.multiply(centered, self.spread(slope)))
        factor = build.multiply(scale, inverse)
        for_operand = build.multiply(inner, self.spread(factor))
        return for_operand, build.multiply(product, inverse), total


_RESULTS: dict[str, Callable[[_Parts], tuple[Instruction, ...]]] = {
    "batch-norm-training": _Parts.training,
    "batch-norm-inference": _Parts.inference,
    "batch-norm-grad": _Parts.gradients,
}


@expander("batchnorm_expander", *_RESULTS)
def batchnorm_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `batch-norm-training`, `batch-norm-inference` and `batch-norm-grad`."""
    parts = _Parts(op, build, module)
    found = _RESULTS[op.opcode](parts)
    shapes = op.shape.parts
    results = [parts.narrow(v, s) for v, s in zip(found, shapes, strict=True)]
    return build.value_of(results, op.shape)
