# SPDX-License-Identifier: Apache-2.0
"""Dimensions that devices do not divide are padded, so that they work on parts of one size.

`x[1:] - x[:-1]` has an element less than `x`, so its parts would have different sizes. Here such a
result of an op that only moves elements of a divided array is padded to the next multiple of the
number of parts. Ops that have the dimension as a factor are rewritten to the same size; the padding
has any values. Where a sum, or another fold, or a product goes over it, it is replaced by the
identity first. Other users get the old size, a slice.

Before that, slices and pads of several dimensions become one of each dimension, divided ones first.
So each moves elements along one dimension (`movement`), and those along dimensions that are not
divided work on parts. `pad(u, 1)[2:, 1:-1]` is a chain of ops on boxes:

    slice(pad(u))  =>  slice_b(pad_b(slice_a(pad_a(u)))), a divided

Invariant: a rewritten value starts with the elements that it had.

Source: xla/service/spmd/spmd_partitioner_util.cc (PadToShape, PadWithValue).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ingot.hlo.computation import Computation
from ingot.hlo.dim import round_up
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.passes.spmd.annotations import Known, is_resharded, replace_value
from ingot.passes.spmd.factors import Factors, factors_of
from ingot.passes.spmd.runs import is_box, is_link, is_movement, moved_axes, runs_of
from ingot.passes.spmd.sharding import Sharding, sharding_of, undivided_column
from ingot.support.records import record, replace

_MOST_PADDING = 8
"""An array is padded to the size of its source if that adds less than this part of it."""
MAX_SWEEPS = 3
"""Over a computation: each pads the values along one of their dimensions."""


@record
class _Padded:
    """A value that is longer than another one along a dimension.

    Attributes:
        value: the value.
        axis: the dimension.
        sharding: its division.
    """

    value: Instruction
    axis: int
    sharding: Sharding

    @property
    def size(self) -> int:
        """Its size along the dimension."""
        return self.value.shape.static_dims[self.axis]


@record
class _Along:
    """A factor of an op that an operand's padded dimension has.

    Attributes:
        factors: all factors.
        factor: the factor.
        operand: the number of the operand.
    """

    factors: Factors
    factor: int
    operand: int

    def sharding(self, given: _Padded, result: Instruction) -> Sharding:
        """Return how the result is divided if the operand is `given`."""
        if is_movement(result):
            return given.sharding.even(result.shape.static_dims)
        (results,), mapping = self.factors.results, self.factors.operands[self.operand]
        count = len(given.sharding.parts)
        columns = [
            given.sharding.column(mapping.index(factor))
            if factor in mapping
            else undivided_column(count)
            for factor in results
        ]
        return sharding_of(columns, count).even(result.shape.static_dims)


def pad_uneven(module: Module, known: Known) -> None:
    """Pad the values of a module that devices cannot divide evenly, as far as ops allow it."""
    for computation in module.post_order():
        for _ in range(MAX_SWEEPS):
            split_boxes(computation, known)
            if not _Sweep(computation, known).run():
                break


@record
class _Others:
    """The values that are known to be divided, but for one."""

    known: Known
    value: Instruction

    def __contains__(self, value: Instruction) -> bool:
        return value is not self.value and value in self.known


class _Source(NamedTuple):
    """The padding of a moved array: to a size along a dimension."""

    axis: int
    sharding: Sharding
    size: int


class _Sweep:
    """One walk over a computation, operands before users."""

    def __init__(self, computation: Computation, known: Known) -> None:
        self.computation = computation
        self.known = known
        self.is_changed = False
        self._sources: dict[Instruction, _Source] = {}
        self._padded: dict[Instruction, _Padded] = {}

    def run(self) -> bool:
        """Rewrite what can be; return whether anything was padded."""
        for op in self.computation.post_order():
            if op.parent is None or not op.shape.is_array or not op.shape.is_static:
                continue
            if any(o in self._sources or o in self._padded for o in op.operands):
                self._visit(op)
            elif is_movement(op):
                self._note_source(op)
        for value in list(self._padded):
            self.computation.remove_dead(value)
        return self.is_changed

    def _visit(self, op: Instruction) -> None:
        for number, operand in enumerate(op.operands):
            axis = self._axis(operand)
            factors = factors_of(op, [o.shape for o in op.operands]) if axis is not None else None
            factor = factors.operands[number][axis] if factors and axis is not None else None
            if factors is not None and factor is not None and _is_resized(op, factors, factor):
                self._resize(op, _Along(factors, factor, number), self._pad(operand))
                return
        if is_movement(op):
            self._note_source(op)

    def _axis(self, value: Instruction) -> int | None:
        if value in self._padded:
            return self._padded[value].axis
        return self._sources[value].axis if value in self._sources else None

    def _note_source(self, op: Instruction) -> None:
        """Remember how a moved array is divided that others do not divide evenly."""
        if is_link(op) or (op.is_root and "sharding" in op.extra):
            return
        own, others = self.known.of(op), _Others(self.known, op)
        for axis in range(op.shape.rank):
            for run in runs_of(op, axis, others):
                sharding = self.known.of(run.source)
                if run.source is op or sharding is None or sharding.tiles[axis] == 1:
                    continue
                size = op.shape.static_dims[axis]
                wanted = _padded_size(
                    size, run.source.shape.static_dims[axis], sharding.tiles[axis]
                )
                if own is not None and own.tiles[axis] > 1 and wanted == size:
                    break
                self._sources[op] = _Source(axis, sharding, wanted)
                if wanted == size:
                    self._pad(op)
                return

    def _pad(self, value: Instruction) -> _Padded:
        """Return an array that has parts of one size."""
        if value not in self._padded:
            axis, sharding, size = self._sources[value]
            is_wide = size == value.shape.static_dims[axis]
            made = value if is_wide else self._widened(value, axis, size)
            kept = self._annotate(made, sharding)
            self._padded[value] = _Padded(made, axis, kept)
            self.is_changed = self.is_changed or not is_wide
        return self._padded[value]

    def _annotate(self, op: Instruction, sharding: Sharding) -> Sharding:
        """Let a moved array stay divided as its source is, whatever Shardy annotated."""
        kept = sharding.even(op.shape.static_dims)
        op.extra["sharding"] = kept.text()
        self.known.set(op, kept)
        return kept

    def _widened(self, value: Instruction, axis: int, size: int) -> Instruction:
        """Return an array with elements of any value after its own."""
        build = RuleBuilder(self.computation, value.metadata)
        wide = value.shape.with_dim(axis, size)
        if value.opcode == "broadcast" and axis not in value.attributes.dimensions:
            (source,), dimensions = value.operands, value.attributes.dimensions
            return build.emit("broadcast", source, shape=wide, dimensions=dimensions)
        if value.opcode == "iota":
            along: int = value.attributes.iota_dimension
            return build.emit("iota", shape=wide, iota_dimension=along)
        return build.pad_along(value, axis, (0, size - value.shape.static_dims[axis], 0))

    def _resize(self, op: Instruction, along: _Along, like: _Padded) -> None:
        """Replace an op by one whose dimensions of a factor are as long as `like`."""
        (results,), factor = along.factors.results, along.factor
        axis = results.index(factor) if factor in results else None
        if axis is not None and op.shape.static_dims[axis] == like.size:
            op.extra.pop("sharding", None)
            self._note(op, op, axis, along.sharding(like, op))
            return
        operands = [
            self._operand(operand, mapping.index(factor), like) if factor in mapping else operand
            for operand, mapping in zip(op.operands, along.factors.operands, strict=True)
        ]
        if axis is None:
            operands = self._without_padding(op, along, operands)
        made = self.computation.copy_of(op, operands)
        made.extra.pop("sharding", None)
        if axis is None:
            replace_value(op, made)
            return
        self.computation.set_shape(made, op.shape.with_dim(axis, like.size))
        self.computation.set_attributes(made, _resized_attributes(op, axis, like.size))
        build = RuleBuilder(self.computation, op.metadata)
        rest = build.leading(made, op.shape.dims)
        self._note(rest, made, axis, along.sharding(like, made))
        replace_value(op, rest)

    def _note(self, value: Instruction, padded: Instruction, axis: int, given: Sharding) -> None:
        if is_movement(padded):
            self._annotate(padded, given)
        self.known.set(padded, given)
        self._padded[value] = _Padded(padded, axis, given)

    def _operand(self, value: Instruction, axis: int, like: _Padded) -> Instruction:
        """Return an operand as long as `like` along its own dimension."""
        if self._axis(value) == axis and self._pad(value).size == like.size:
            return self._pad(value).value
        return self._widened(value, axis, like.size)

    def _without_padding(
        self, op: Instruction, along: _Along, operands: list[Instruction]
    ) -> list[Instruction]:
        """Return the operands of a fold with an identity in the padding."""
        build = RuleBuilder(self.computation, op.metadata)
        start = op.operands[1] if op.opcode == "reduce" else None
        found = list(operands)
        for number, (wide, mapping) in enumerate(
            zip(operands, along.factors.operands, strict=True)
        ):
            if along.factor not in mapping:
                continue
            axis = mapping.index(along.factor)
            dims = wide.shape.static_dims
            size = op.operands[number].shape.static_dims[axis]
            if size == dims[axis]:
                continue
            index = build.index_along(dims, axis)
            there = build.compare(index, size, direction="LT")
            fill = start or build.constant(0, wide.shape.dtype)
            found[number] = build.select(there, wide, build.broadcast_to(fill, dims, ()))
        return found


def _padded_size(size: int, source: int, tiles: int) -> int:
    """Return the padded size of a moved array: that of its source, if it is not much larger.

    Then both have parts of the same size, and only elements at the borders move.
    """
    if size <= source < size + source // _MOST_PADDING:
        return source
    return round_up(size, tiles)


def _is_resized(op: Instruction, factors: Factors, factor: int) -> bool:
    """Whether an op can be longer along all dimensions of a factor."""
    if len(factors.results) != 1 or op.control_predecessors or is_resharded(op):
        return False
    if op.opcode == "custom-call" or op.has(Trait.COLLECTIVE):
        return False
    shapes = [*(operand.shape for operand in op.operands), op.shape]
    mappings = [*factors.operands, *factors.results]
    dims = zip(shapes, mappings, strict=True)
    sizes = {shape.dims[mapping.index(factor)] for shape, mapping in dims if factor in mapping}
    if len(sizes) != 1:
        return False
    (results,) = factors.results
    if factor not in results:
        return op.opcode == "reduce" or op.has(Trait.CONTRACTION)
    if op.opcode == "gather":
        return results.index(factor) not in op.attributes.index_map.window_dims
    if op.opcode == "scatter":
        return factor not in [
            factors.operands[2][axis] for axis in op.attributes.index_map.window_dims
        ]
    return True


def _resized_attributes(op: Instruction, axis: int, size: int) -> Any:
    """Return the attributes of an op that takes a whole dimension, resized to `size`."""
    given = op.attributes
    if op.opcode == "slice":
        box = list(given.slice)
        box[axis] = (0, size, 1)
        return replace(given, slice=tuple(box))
    if op.opcode == "dynamic-slice":
        return replace(given, dynamic_slice_sizes=op.shape.with_dim(axis, size).dims)
    return given


def split_boxes(computation: Computation, known: Known) -> None:
    """Split the chains of slices and pads of arrays that are known to be divided."""
    for op in computation.post_order():
        if op.parent is None or not is_box(op):
            continue
        if op.users and all(map(is_movement, op.users)):
            continue  # It will be in their chains.
        chain = _chain(op, known)
        sharding = known.of(chain[0].operands[0])
        axes = [
            axis for axis in range(op.shape.rank) if any(axis in moved_axes(one) for one in chain)
        ]
        divided = [axis for axis in axes if sharding is not None and sharding.tiles[axis] > 1]
        if not divided or len(axes) == 1:
            continue
        made = chain[0].operands[0]
        for axis in (*divided, *(axis for axis in axes if axis not in divided)):
            for one in chain:
                made = _along(one, made, axis) if axis in moved_axes(one) else made
        if "sharding" in op.extra:
            made.extra["sharding"] = op.extra["sharding"]
        replace_value(op, made)


def _chain(op: Instruction, known: Known) -> list[Instruction]:
    """Return slices and pads, from the first to `op`, each of which is the operand of the next."""
    chain = [op]
    fill = op.operands[1] if op.opcode == "pad" else None
    while chain[0].operands[0] not in known and is_box(chain[0].operands[0]):
        before = chain[0].operands[0]
        if before.opcode == "pad":
            # At a corner, pads along one dimension after the other have the last one's value.
            if fill is not None and fill is not before.operands[1]:
                break
            fill = before.operands[1]
        chain.insert(0, before)
    return chain


def _along(op: Instruction, value: Instruction, axis: int) -> Instruction:
    """Return the slice or pad of `value` that `op` is along one dimension."""
    build = RuleBuilder(op.computation, op.metadata)
    if op.opcode == "pad":
        return build.pad_along(value, axis, op.attributes.padding[axis], op.operands[1])
    return build.slice_along(value, axis, *op.attributes.slice[axis])
