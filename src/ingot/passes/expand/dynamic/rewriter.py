# SPDX-License-Identifier: Apache-2.0
"""The sizes of one computation's values, and how ops that need at most a mask are rewritten.

`Rewriter` walks a computation, operands first. Sizes are `Dim`s over the scalars that the program
computes; they become instructions on demand. Ops that move elements or have computations of their
own are handled by the rules of `padder`.

Source: xla/service/dynamic_dimension_inference.cc, dynamic_padder.cc (PadWithScalar).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Atom, Dim
from ingot.hlo.dtype import S32, DType, greatest, least
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.expand.counters import size_value
from ingot.passes.expand.dynamic.moves import stretched
from ingot.semantics.dynamic_sizes import (
    LEAST,
    OUTSIDE,
    ZERO,
    Mask,
    Sizes,
    is_elementwise,
    refused,
    rule_of,
)
from ingot.support.records import replace

Leaves = dict[tuple[int, ...], Sizes]
"""Sizes by the path of an array in a value; an array's own path is ()."""
_FUNCTIONS = {"floordiv": "divide", "mod": "remainder", "max": "maximum", "min": "minimum"}


RESIZING = ("set-dimension-size", "dynamic-reshape")
"""Ops whose result is of dynamic size while their operands are not."""


def is_dynamic(op: Instruction) -> bool:
    """Whether an op is one of these."""
    bounded = any(leaf.bounded for _, leaf in op.shape.leaves())
    return bounded or op.opcode in RESIZING


def without_bounds(shape: Shape) -> Shape:
    """Return the shape with every dynamic dimension at its bound."""
    if shape.is_tuple:
        return Shape.tuple(tuple(without_bounds(element) for element in shape.elements))
    return replace(shape, bounded=()) if shape.bounded else shape


class Rewriter:
    """Rewrites one computation from dynamic to static shapes.

    Attributes:
        module: gets the computations that are made.
        computation: the one that is rewritten, in place.
        leaves: dynamic dimensions of every value that has some.
        rules: rewrite the ops that need more than a mask.
    """

    def __init__(
        self,
        module: Module,
        computation: Computation,
        rules: Mapping[str, Callable[[Rewriter, Instruction], None]],
    ) -> None:
        """Start on a computation."""
        self.module = module
        self.computation = computation
        self.rules = rules
        self.leaves: dict[Instruction, Leaves] = {}
        self._values: dict[str, Instruction] = {}
        self._made: dict[int | Dim, Instruction] = {}

    def run(self) -> None:
        """Rewrite every op, then make all shapes static."""
        for op in self.computation.post_order():
            dynamic = any(any(self.leaves.get(o, {}).values()) for o in op.operands)
            if dynamic or (is_dynamic(op) and op not in self.leaves):
                self._visit(op)
        for op in self.computation.instructions:
            self.computation.set_shape(op, without_bounds(op.shape))

    def _visit(self, op: Instruction) -> None:
        if op.opcode == "parameter":
            raise refused(op, "a parameter of dynamic size in this place")
        count, before = len(self.computation), op.control_predecessors
        self.rules.get(op.opcode, Rewriter.general)(self, op)
        for item in self.computation.instructions[count:] if before else ():
            item.run_after(before)

    # ---- sizes

    def of(self, value: Instruction) -> Sizes:
        """Return the dynamic dimensions of an array."""
        return self.leaves.get(value, {}).get((), {})

    def size(self, value: Instruction) -> int | Dim:
        """Return the size whose value an s32[] is."""
        if value.opcode == "constant":
            return int(value.attributes.literal.value)
        self._values[value.name] = value
        found = Dim.symbol(value.name)
        self._made[found] = value
        return found

    def number(self, size: int | Dim) -> Instruction:
        """Return a size as an s32[]."""
        if size not in self._made:
            self._made[size] = self._lowered(size)
        return self._made[size]

    def numbers(self, sizes: Sizes) -> dict[int, Instruction]:
        """Return sizes as s32[]."""
        return {dim: self.number(size) for dim, size in sizes.items()}

    def _lowered(self, size: int | Dim) -> Instruction:
        build = Builder(self.computation)
        if isinstance(size, int):
            return build.constant(size, S32)
        total: Instruction | None = None
        for atoms, factor in size.terms:
            parts = [self._atom(atom) for atom in atoms]
            if factor != 1 or not parts:
                parts.append(self.number(factor))
            product = parts[0]
            for part in parts[1:]:
                product = build.multiply(product, part)
            total = product if total is None else build.add(total, product)
        assert total is not None, "a Dim has terms"
        return total

    def _atom(self, atom: Atom) -> Instruction:
        build = Builder(self.computation)
        if atom.function:
            sides = self.number(atom.left), self.number(atom.right)
            return build.emit(_FUNCTIONS[atom.function], *sides)
        if atom.text in self._values:
            return self._values[atom.text]
        # A symbolic size of the module's own.
        return build.convert_to(size_value(build, Dim.symbol(atom.text)), S32)

    # ---- rewriting

    def builder(self, op: Instruction) -> Builder:
        """Return a builder for the replacement of an op."""
        return Builder(self.computation, op.metadata)

    def replace(self, op: Instruction, made: Instruction, sizes: Sizes) -> None:
        """Replace an op by a value of some sizes."""
        self.replace_leaves(op, made, {(): sizes} if made.shape.is_array else _all(made, sizes))

    def replace_leaves(self, op: Instruction, made: Instruction, leaves: Leaves) -> None:
        """Replace an op by a value of some sizes."""
        self.computation.set_shape(op, made.shape)
        if any(leaves.values()):
            self.leaves[made] = leaves
        self.computation.substitute(op, made)

    def keep(self, op: Instruction, sizes: Sizes) -> None:
        """Keep an op, and note the sizes of each element of its result."""
        self.leaves[op] = {(): sizes} if op.shape.is_array else _all(op, sizes)

    def result_sizes(self, op: Instruction) -> Sizes:
        """Return the dynamic dimensions of each element of a result, by the table.

        Raises:
            UnsupportedError: the table has no row for the opcode.
        """
        rule = rule_of(op)
        if rule is None:
            raise refused(op, f"{op.opcode} of a dynamic size")
        marked = any(leaf.bounded for _, leaf in op.shape.leaves())
        if not marked and not op.called_computations:
            # As in XLA: a result that is declared static is static.
            return {}
        return rule.sizes(op, [self.of(operand) for operand in op.operands])

    def general(self, op: Instruction) -> None:
        """Rewrite an op that moves nothing across a border: mask elements behind the size."""
        sizes = self.result_sizes(op)
        if is_elementwise(op):
            sizes = self._joined(op, sizes)
        rule = rule_of(op)
        for mask in rule.masks(op) if rule is not None else ():
            self._apply(op, mask)
        self.keep(op, sizes)

    def _joined(self, op: Instruction, sizes: Sizes) -> Sizes:
        """Return the smallest size per dimension; an operand of one element is repeated."""
        found, build = dict(sizes), self.builder(op)
        for dim in sizes:
            given = {n: self.of(o)[dim] for n, o in enumerate(op.operands) if dim in self.of(o)}
            different = list(dict.fromkeys(given.values()))
            if len(different) == 1:
                continue
            joined = self.number(different[0])
            for size in different[1:]:
                other = self.number(size)
                least, most = build.minimum(joined, other), build.maximum(joined, other)
                alone = build.compare(least, 1, direction="EQ")
                joined = build.select(alone, most, least)
            found[dim] = self.size(joined)
            for number, size in given.items():
                operand = op.operands[number]
                value = stretched(build, operand, dim, self.number(size), joined)
                self.leaves[value] = {(): self.of(operand) | {dim: found[dim]}}
                self.computation.replace_operand(op, number, value)
        return found

    def _apply(self, op: Instruction, mask: Mask) -> None:
        value = op.operands[mask.operand]
        sizes = {n: size for n, size in self.of(value).items() if n in mask.dimensions}
        if not sizes:
            return
        build = self.builder(op)
        if isinstance(mask.neutral, int):
            neutral = op.operands[mask.neutral]
        else:
            if mask.neutral == OUTSIDE and value.shape.dtype.bits < 32:
                value = build.convert_to(value, S32)
            neutral = build.constant(_neutral(mask.neutral, value.shape.dtype))
        masked = self.masked(op, value, sizes, neutral)
        self.computation.replace_operand(op, mask.operand, masked)

    def masked(
        self, op: Instruction, value: Instruction, sizes: Sizes, neutral: Instruction
    ) -> Instruction:
        """Return `value` with `neutral`, a scalar or an array, beyond some sizes."""
        build, dims = self.builder(op), value.shape.dims
        if neutral.shape.is_scalar:
            neutral = build.broadcast_to(neutral, dims, ())
        for dim, size in sizes.items():
            value = build.select(self.inside(op, value.shape, dim, size), value, neutral)
        return value

    def inside(self, op: Instruction, shape: Shape, dim: int, size: int | Dim) -> Instruction:
        """Return where an array is inside the size of one dimension."""
        build = self.builder(op)
        at = build.index_along(shape.dims, dim)
        limit = build.broadcast_to(self.number(size), shape.dims, ())
        return build.compare(at, limit, direction="LT")


def _all(op: Instruction, sizes: Sizes) -> Leaves:
    return {path: dict(sizes) for path, _ in op.shape.leaves()}


def _neutral(name: str, element: DType) -> Literal:
    if name == ZERO:
        return Literal.of(0, element)
    if name == OUTSIDE:
        return Literal.of(-1 if element.is_signed else greatest(element), element)
    return Literal.of(least(element) if name == LEAST else greatest(element), element)
