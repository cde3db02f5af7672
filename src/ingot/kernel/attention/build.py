# SPDX-License-Identifier: Apache-2.0
"""From a fused computation with two dots to an `AttentionKernel`.

The computation is what `passes.fusion.attention` outlined: `analysis.attention` finds the same
instructions in it again. The first dot and the folds of rows become leaves of the expressions over
the kernel's axes; the rest is lowered element by element.
"""

from __future__ import annotations

from ingot.analysis.attention import Attention, attention_of
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.kernel import expr as ex
from ingot.kernel.contraction.build import contraction_sum, dot_operand
from ingot.kernel.elemental.convolution_index import accumulation_type
from ingot.kernel.elemental.lowering import ElementalLowering
from ingot.kernel.elemental.points import Point
from ingot.kernel.elemental.rules import elemental_lowering
from ingot.kernel.expr import Expr, converted
from ingot.kernel.index_math import Index, linearize, reshape_index
from ingot.kernel.ir import AttentionKernel, Axis, Store
from ingot.kernel.loop.build import buffers_of, roots_of
from ingot.support.diagnostics import InternalError

BATCH, M, N, K, E = "@b", "@m", "@n", "@k", "@e"


def build_attention_kernel(fused: Computation, dots: list[Instruction]) -> AttentionKernel:
    """Return the attention kernel of a fused computation with these dots.

    Raises:
        InternalError: the computation is no attention.
    """
    found = next((one for one in map(attention_of, dots) if one is not None), None)
    if found is None:
        raise InternalError(f"{fused.name} has {len(dots)} products and is no attention")
    return _Builder(fused, found).kernel()


class _Builder:
    """Builds one kernel."""

    def __init__(self, fused: Computation, found: Attention) -> None:
        self.fused = fused
        self.found = found
        first = found.first
        *batch, m, n = first.shape.dims
        self.values_side = 1 - found.side
        self.batch_dims, self.row_dims = tuple(batch), (*batch, m)
        self.axes = (
            Axis(BATCH, batch[0] if batch else 1),
            Axis(M, m),
            Axis(N, n),
            Axis(K, found.depth),
            Axis(E, found.width),
        )
        extents = {axis.name: axis.extent for axis in self.axes}
        self.lowering: ElementalLowering = elemental_lowering(fused, extents)
        self.extents = extents

    def kernel(self) -> AttentionKernel:
        """Return the kernel."""
        found, lowering = self.found, self.lowering
        first, second = found.first, found.second
        accumulate = accumulation_type(first.operands[0].shape.dtype, first.shape.dtype)
        lhs = self._operand(first, 0, M, K)
        rhs = self._operand(first, 1, N, K)
        values = self._operand(second, self.values_side, E, N)
        if second.operands[found.side].shape.dtype is not values.dtype:
            values = converted(values, accumulate)  # powers take the values' type in tiles
        names = (BATCH, M, N)
        lowering.accumulators[first] = contraction_sum(accumulate, first.shape.dtype, names)
        rows = frozenset((BATCH, M))
        greatest, total = found.greatest, found.total
        score_type = found.scores.shape.dtype
        lowering.accumulators[greatest] = converted(
            ex.reduced(0, 0, score_type, rows), greatest.shape.dtype
        )
        lowering.accumulators[total] = converted(
            ex.reduced(1, 0, accumulate, rows), total.shape.dtype
        )
        scores = lowering.value(found.scores, self._score_point())
        shift = converted(self._of_row(found.shift), score_type)
        lowering.accumulators[second] = self._weighted(accumulate)
        difference = found.powers.operands[0]
        sides = (ex.argument(0, score_type), ex.argument(1, score_type))
        power = ex.make("subtract", score_type, sides, difference.attributes)
        power = ex.make("exponential", score_type, (power,), found.powers.attributes)
        roots = roots_of(self.fused)
        buffer = len(self.fused.parameters)
        stores = [self._result(roots[0], buffer)]
        for number, root in enumerate(roots[1:], buffer + 1):
            where = linearize(self._row_index(root), root.shape.dims)
            stores.append(Store(number, where, self._of_row(root)))
        return AttentionKernel(
            *self.axes, lhs, rhs, values, accumulate, scores, shift, power, tuple(stores),
            buffers_of(self.fused),
        )  # fmt: skip

    def _index(self, name: str) -> int | Dim:
        return 0 if self.extents[name] == 1 else Dim.symbol(name)

    def _operand(self, dot: Instruction, number: int, free: str, summed: str) -> Expr:
        indices = tuple(self._index(name) for name in (BATCH, summed, free))
        return dot_operand(self.lowering, dot, number, indices)

    def _row(self) -> Index:
        return (*[self._index(BATCH) for _ in self.batch_dims], self._index(M))

    def _row_index(self, item: Instruction) -> Index:
        """Return the index of a row in an array of rows, whatever its dimensions."""
        return reshape_index(self._row(), self.row_dims, item.shape.dims, self.extents)

    def _score_point(self) -> Point:
        dims = self.found.scores.shape.dims
        row = reshape_index(self._row(), self.row_dims, dims[:-1], self.extents)
        return Point((*row, self._index(N)))

    def _of_row(self, item: Instruction) -> Expr:
        """Return the value of an array of rows at the row of a point."""
        return self.lowering.value(item, Point(self._row_index(item)))

    def _weighted(self, accumulate: DType) -> Expr:
        """Return the second product, from the sum of powers times values."""
        value = ex.make("accumulator", accumulate, (), (BATCH, E, M))
        if self.found.scaling is not None:
            op, item = self.found.scaling
            factor = converted(self._of_row(item), accumulate)
            value = ex.compute(op, value, factor)
        return converted(value, self.found.second.shape.dtype)

    def _result(self, root: Instruction, buffer: int) -> Store:
        """Return the store of the second product, which `root` has moved or converted."""
        second = self.found.second
        free = (self._index(M), self._index(E))
        order = free if self.found.side == 0 else free[::-1]
        index: Index = (*[self._index(BATCH) for _ in self.batch_dims], *order)
        value = self.lowering.value(second, Point(index))
        for item in self._behind(root):
            source = item.operands[0].shape.dims
            if item.opcode == "convert":
                value = converted(value, item.shape.dtype)
            elif item.opcode == "transpose":
                index = tuple(index[n] for n in item.as_(DimensionsAttributes).dimensions)
            else:
                index = reshape_index(index, source, item.shape.dims, self.extents)
        return Store(buffer, linearize(index, root.shape.dims), value)

    def _behind(self, root: Instruction) -> list[Instruction]:
        """Return the ops from the second product to `root`."""
        found: list[Instruction] = []
        while root is not self.found.second:
            found.append(root)
            root = root.operands[0]
        return found[::-1]
