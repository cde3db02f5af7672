"""Bounded dynamic dimensions (`f32[<=8]`) as full arrays beside their sizes.

A dynamic array lies in memory at its bound; its size is a scalar that this pass carries along from
`set-dimension-size` to `get-dimension-size`. What lies behind the size must not be seen, so ops
that fold over a dynamic dimension (reductions, contractions) get a mask, and ops that move elements
across the border between what counts and what does not compute where each comes from
(`dynamic_moves`); those for which nothing of this is there are refused.

Invariant: afterwards no shape in the module has a dynamic dimension.

Source: xla/service/dynamic_dimension_inference.cc, dynamic_padder.cc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import Trait
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.shape import Shape
from ingot.passes.expand.dynamic_moves import (
    Sizes,
    all_sizes,
    inferred_size,
    joined,
    reshaped,
    reversed_along,
    stretched,
)
from ingot.support.diagnostics import UnsupportedError


@dataclass(frozen=True, slots=True)
class DynamicPadder(Pass):
    """Replaces dynamic dimensions by their bounds, sizes and masks."""

    name: ClassVar[str] = "dynamic_padder"

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite every computation that has a dynamic dimension."""
        changed = False
        for computation in module.post_order():
            if any(_is_dynamic(i) for i in computation.instructions):
                _Padder(computation).run()
                changed = True
        return changed


def _is_dynamic(op: Instruction) -> bool:
    bounded = any(leaf.bounded for _, leaf in op.shape.leaves())
    return bounded or op.opcode in ("set-dimension-size", "dynamic-reshape")


class _Padder:
    """The sizes of one computation's values, instruction by instruction."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.sizes: dict[Instruction, Sizes] = {}
        self.rules = {
            "set-dimension-size": self._set_size,
            "get-dimension-size": self._get_size,
            "dynamic-reshape": self._dynamic_reshape,
            "broadcast": self._broadcast,
            "transpose": self._transpose,
            "reshape": self._reshape,
            "reverse": self._reverse,
            "concatenate": self._concatenate,
            "reduce": self._reduce,
            "dot": self._dot,
        }

    def run(self) -> None:
        for op in self.computation.post_order():
            if op.opcode == "parameter" and _is_dynamic(op):
                raise _unsupported(op, "a parameter of dynamic size")
            dynamic = [operand for operand in op.operands if self.sizes.get(operand)]
            if dynamic or _is_dynamic(op):
                self._visit(op)
        root = self.computation.root
        if self.sizes.get(root):
            raise _unsupported(root, "a result of dynamic size")
        for op in self.computation.instructions:
            self.computation.set_shape(op, _without_bounds(op.shape))

    def _visit(self, op: Instruction) -> None:
        rule = self.rules.get(op.opcode)
        if rule is not None:
            rule(op)
        elif op.has(Trait.ELEMENTWISE) or op.opcode == "map":
            self._elementwise(op)
        else:
            raise _unsupported(op, f"{op.opcode} of a dynamic size")

    def _elementwise(self, op: Instruction) -> None:
        """The greatest size of the operands; where it is not theirs, theirs is one: it repeats."""
        found: Sizes = {}
        for place in range(op.shape.rank if op.shape.is_array else 0):
            sizes = {
                n: self._of(o)[place] for n, o in enumerate(op.operands) if place in self._of(o)
            }
            if not sizes:
                continue
            build = Builder(self.computation, op.metadata)
            different = list(dict.fromkeys(sizes.values()))
            found[place] = different[0]
            for size in different[1:]:
                found[place] = build.maximum(found[place], size)
            for number, size in sizes.items() if len(different) > 1 else ():
                value = stretched(build, op.operands[number], place, size, found[place])
                self.sizes[value] = self._of(op.operands[number]) | {place: found[place]}
                self.computation.replace_operand(op, number, value)
        self.sizes[op] = found

    def _of(self, value: Instruction) -> Sizes:
        return self.sizes.get(value, {})

    def _replace(self, op: Instruction, made: Instruction, sizes: Sizes) -> None:
        self.computation.set_shape(op, _without_bounds(op.shape))
        self.sizes[made] = sizes
        self.computation.replace_all_uses(op, made)
        self.computation.remove(op)

    # ---- ops that make and ask for sizes

    def _set_size(self, op: Instruction) -> None:
        operand, size = op.operands
        place: int = op.attributes.dimensions[0]
        found = dict(self._of(operand))
        found.pop(place, None)
        if op.shape.bounded and op.shape.bounded[place]:
            build = Builder(self.computation, op.metadata)
            low, high = build.constant(0, S32), build.constant(op.shape.static_dims[place], S32)
            found[place] = build.clamp(low, size, high)
        # A copy: the operand itself may be used at its own size too.
        build = Builder(self.computation, op.metadata)
        self._replace(op, build.copy(operand), found)

    def _get_size(self, op: Instruction) -> None:
        place: int = op.attributes.dimensions[0]
        size = self._of(op.operands[0]).get(place)
        if size is not None:
            self._replace(op, size, {})

    def _dynamic_reshape(self, op: Instruction) -> None:
        operand, *sizes = op.operands
        bounded = op.shape.bounded or (False,) * op.shape.rank
        build = Builder(self.computation, op.metadata)
        # Elements stay one after the other as long as only the first dimensions are dynamic.
        if any(bounded[1:]) or any(place > 0 for place in self._of(operand)):
            given = (build.convert_to(size, S32) for size in sizes)
            after = {n: size for n, size in enumerate(given) if bounded[n]}
            dims = op.shape.static_dims
            made = reshaped(build, operand, self._of(operand), dims, after)
            self._replace(op, made, after)
            return
        made = build.reshape_to(operand, op.shape.dims)
        made = build.copy(made) if made is operand else made
        self._replace(op, made, {0: build.convert_to(sizes[0], S32)} if any(bounded) else {})

    # ---- ops that move dimensions

    def _broadcast(self, op: Instruction) -> None:
        places: tuple[int, ...] = op.attributes.dimensions
        self.sizes[op] = {places[n]: size for n, size in self._of(op.operands[0]).items()}

    def _transpose(self, op: Instruction) -> None:
        places: tuple[int, ...] = op.attributes.dimensions
        self.sizes[op] = {places.index(n): size for n, size in self._of(op.operands[0]).items()}

    def _reshape(self, op: Instruction) -> None:
        before, after = op.operands[0].shape.static_dims, op.shape.static_dims
        found: Sizes = {}
        for place, size in self._of(op.operands[0]).items():
            same = [
                n
                for n, bound in enumerate(after)
                if bound == before[place] and math.prod(after[:n]) == math.prod(before[:place])
            ]
            if not same:
                self._rearrange(op)
                return
            found[same[-1]] = size
        self.sizes[op] = found

    def _rearrange(self, op: Instruction) -> None:
        """Replace a reshape that joins or divides dynamic dimensions."""
        (operand,) = op.operands
        dims, sizes = op.shape.static_dims, self._of(operand)
        places = [n for n, flag in enumerate(op.shape.bounded) if flag]
        if len(places) > 1:
            raise _unsupported(op, "reshape to several dynamic dimensions of another division")
        build = Builder(self.computation, op.metadata)
        found = {n: inferred_size(build, operand, sizes, dims, n) for n in places}
        self._replace(op, reshaped(build, operand, sizes, dims, found), found)

    def _reverse(self, op: Instruction) -> None:
        (operand,) = op.operands
        places: tuple[int, ...] = op.attributes.dimensions
        sizes = self._of(operand)
        if sizes.keys() & set(places):
            build = Builder(self.computation, op.metadata)
            self._replace(op, reversed_along(build, operand, sizes, places), sizes)
        else:
            self.sizes[op] = sizes

    def _concatenate(self, op: Instruction) -> None:
        place: int = op.attributes.dimensions[0]
        found: Sizes = {}
        for operand in reversed(op.operands):
            found.update(self._of(operand))
        if place in found:
            build = Builder(self.computation, op.metadata)
            lengths = [
                all_sizes(build, operand.shape.static_dims, self._of(operand))[place]
                for operand in op.operands
            ]
            whole, length = joined(build, op.operands, lengths, place)
            self._replace(op, whole, found | {place: length})
        else:
            self.sizes[op] = found

    # ---- ops that fold over dimensions

    def _reduce(self, op: Instruction) -> None:
        count = len(op.operands) // 2
        folded: tuple[int, ...] = op.attributes.dimensions
        found: Sizes = {}
        for number in range(count):
            value, start = op.operands[number], op.operands[count + number]
            sizes = self._of(value)
            masked = self._masked(value, {n: sizes[n] for n in sizes if n in folded}, start)
            self.computation.replace_operand(op, number, masked)
            kept = [n for n in range(value.shape.rank) if n not in folded]
            found.update({kept.index(n): sizes[n] for n in sizes if n in kept})
        if found and op.shape.is_tuple:
            raise _unsupported(op, "reduce of several operands to a dynamic size")
        self.sizes[op] = found

    def _dot(self, op: Instruction) -> None:
        given: DotAttributes = op.attributes
        lhs, rhs = op.operands
        left = (*given.lhs_batch_dims, *given.lhs_free_dims(lhs.shape.rank))
        order = ((0, left, given.lhs_contracting_dims), (1, (), given.rhs_contracting_dims))
        found: Sizes = {}
        free = given.rhs_free_dims(rhs.shape.rank)
        first = lhs.shape.rank - len(given.lhs_contracting_dims)
        for number, kept, contracted in order:
            value = op.operands[number]
            sizes = self._of(value)
            zero = Builder(self.computation).constant(0, value.shape.dtype)
            inside = {n: sizes[n] for n in sizes if n in contracted}
            masked = self._masked(value, inside, zero)
            self.computation.replace_operand(op, number, masked)
            found.update({kept.index(n): size for n, size in sizes.items() if n in kept})
        right = self._of(rhs)
        found.update({first + free.index(n): size for n, size in right.items() if n in free})
        self.sizes[op] = found

    def _masked(self, value: Instruction, sizes: Sizes, neutral: Instruction) -> Instruction:
        """Return `value` with `neutral` behind the sizes of some dimensions."""
        build = Builder(self.computation, value.metadata)
        dims = value.shape.dims
        for place, size in sizes.items():
            at = build.iota(shape=Shape.array(S32, dims), iota_dimension=place)
            inside = build.compare(at, build.broadcast_to(size, dims, ()), direction="LT")
            value = build.select(inside, value, build.broadcast_to(neutral, dims, ()))
        return value


def _without_bounds(shape: Shape) -> Shape:
    if shape.is_tuple:
        return Shape.tuple(tuple(_without_bounds(element) for element in shape.elements))
    return replace(shape, bounded=()) if shape.bounded else shape


def _unsupported(op: Instruction, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"the CPU backend does not take {what}",
        instruction=repr(op),
        op_name=op.metadata.op_name,
        location=op.metadata.location,
        hint="use a symbolic size (f32[?n]), which every op takes, or mask by hand",
    )
