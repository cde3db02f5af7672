# SPDX-License-Identifier: Apache-2.0
"""`topk` as a stable sort of values with indices, cut off after k, for types without selection.

Where an element and its index fit into one number of 64 bits a kernel selects (`kernel.sort.topk`),
and the op stays as it is. The meaning is the evaluator's: floats in total order, equal elements by
index.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import BF16, F16, F32, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.indexing import TopKAttributes
from ingot.hlo.rewrite.op_pass import Expander
from ingot.hlo.shape import Shape
from ingot.support.records import record


@record
class TopKExpander(Expander):
    """Rewrites `topk` into `sort` and slices, where no kernel selects."""

    name = "topk-expander"
    concerns = frozenset({"topk"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the first sorted elements; the op itself if a kernel selects."""
        return op if is_selected(op) else _sorted(op, build, module)


def is_selected(topk: Instruction) -> bool:
    """Whether a kernel selects."""
    return has_keys(topk.operands[0].shape.dtype) and topk.attributes.k > 0


def has_keys(element: DType) -> bool:
    """Whether kernels select among elements: floats of 16 or 32 bits, integers of 8 to 32."""
    return element in (F32, F16, BF16) or (element.is_integer and 8 <= element.bits <= 32)


def _sorted(topk: Instruction, build: Builder, module: Module) -> Instruction:
    given = topk.as_(TopKAttributes)
    (operand,) = topk.operands
    dims = operand.shape.dims
    last = len(dims) - 1
    indices = build.iota(shape=Shape.array(S32, dims), iota_dimension=last)
    ordered = build.sort(
        operand,
        indices,
        dimensions=(last,),
        is_stable=True,
        to_apply=module.take(_comparator(operand.shape, given.largest)),
    )
    cut = tuple((0, given.k if dim == last else size, 1) for dim, size in enumerate(dims))
    return build.tuple(*(build.slice(build.element_of(ordered, n), slice=cut) for n in (0, 1)))


def _comparator(operand: Shape, largest: bool) -> Computation:
    b = Builder("comes_first")
    scalar, index = Shape.array(operand.dtype, ()), Shape.array(S32, ())
    left, right, *_ = (b.parameter(n, s) for n, s in enumerate((scalar, scalar, index, index)))
    kind = "TOTALORDER" if operand.dtype.is_float else ""
    return b.build(b.compare(left, right, direction="GT" if largest else "LT", type=kind))
