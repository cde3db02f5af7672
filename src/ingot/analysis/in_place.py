# SPDX-License-Identifier: Apache-2.0
"""In-place ops: which outputs of an instruction live in the memory of an operand.

Two relations. *Must*: an update of a part of an array (dynamic-update-slice, scatter) writes only
that part, so the output has to be the operand's own buffer; copy insertion sees to it. *May*: an
elementwise kernel reads an operand at an element only before it writes the outputs there, so an
output may take over the operand's buffer if the operand dies; so may that of an all-reduce which
devices divide among them.

Emitters follow `in_place_operands` literally: listed operands are updated in place, everything else
is written whole.

Source: xla/hlo/analysis/hlo_dataflow_analysis.cc (GetInPlaceInputOutputPairs,
CanShareOperandBufferWithUser), cut down to what our kernels do.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("main")
    >>> x, u, i = b.parameter(0, "f32[4]"), b.parameter(1, "f32[1]"), b.parameter(2, "s32[]")
    >>> in_place_operands(b.dynamic_update_slice(x, u, i))
    {(): 0}
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TypeAlias

from ingot.analysis.aliasing import Path
from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.opset.shaping import SliceAttributes
from ingot.hlo.opset.structural import ConstantAttributes
from ingot.hlo.shape import Shape
from ingot.hlo.structure import memoize_by_structure
from ingot.semantics.device_groups import folds_parts, grid_of, groups_of
from ingot.support.graphs import reachable

_ELEMENT_ORDER = ops_with(FusionClass.ELEMENTWISE, FusionClass.INJECTIVE, Trait.LEAF, Trait.TUPLE)
"""Ops whose kernels write element after element, each after reading all that it needs."""

Sharing: TypeAlias = tuple[dict[Path, int], frozenset[int]]


def in_place_operands(instruction: Instruction) -> dict[Path, int]:
    """Return output leaf -> number of the operand whose buffer it must be written into.

    Not for `while`, whose whole state is in place except its invariant leaves.
    """
    if instruction.opcode == "fusion":
        return memoize_by_structure(_fused_sharing, instruction.attributes.calls)[0]
    return dict(_update_pairs(instruction))


def shared_operands(instruction: Instruction) -> Sharing:
    """Return `in_place_operands`, and the operands for which `may_share_operand` holds."""
    if instruction.opcode == "fusion":
        return memoize_by_structure(_fused_sharing, instruction.attributes.calls)
    numbers = range(len(instruction.operands))
    may = frozenset(number for number in numbers if may_share_operand(instruction, number))
    return dict(_update_pairs(instruction)), may


def _update_pairs(update: Instruction) -> Iterator[tuple[Path, int]]:
    destinations = update.definition.destinations
    if destinations is not None:
        for number in range(destinations(len(update.operands))):
            yield ((number,) if update.shape.is_tuple else ()), number


def _fused_sharing(fused: Computation) -> Sharing:
    return _fused_pairs(fused), _shared_parameters(fused)


def _fused_pairs(fused: Computation) -> dict[Path, int]:
    return {
        path: update.operands[number].attributes.number
        for path, update, number, alone in updated_parameters(fused)
        if alone
    }


def updated_parameters(fused: Computation) -> list[tuple[Path, Instruction, int, bool]]:
    """Return (output path, update, its operand number, alone) of fused updates of parameters.

    `alone` says that nothing else reads the parameter, so that its memory may be written.
    """
    found: list[tuple[Path, Instruction, int, bool]] = []
    for prefix, update in _roots(fused.root):
        for path, number in _update_pairs(update):
            target = update.operands[number]
            if target.opcode == "parameter":
                alone = _only_updated(target, update, number)
                found.append(((*prefix, *path), update, number, alone))
    return found


def _roots(root: Instruction) -> list[tuple[Path, Instruction]]:
    if root.opcode == "tuple":
        return [((number,), element) for number, element in enumerate(root.operands)]
    return [((), root)]


def _only_updated(target: Instruction, update: Instruction, number: int) -> bool:
    """Whether nothing reads `target` after its memory may have been written.

    Besides the update itself, what `reads_in_time` may.
    """
    if update.operands.count(target) != 1 or target.is_root:
        return False
    return all(
        number == 0 and reads_in_time(user, update, target.computation)
        for user in target.users
        if user is not update
    )


def reads_in_time(reader: Instruction, update: Instruction, inside: Container[Instruction]) -> bool:
    """Whether a reader of the updated operand, in one kernel with the update, reads in time.

    A single element, the kernel's only result, is written when all is read. A longer update may
    follow a slice of the same elements, if each goes straight to where it came from.
    """
    if update.opcode != "dynamic-update-slice":
        return False
    written = update.operands[1]
    if written.shape.size == 1:
        return True
    return (
        reader.shape.dims == written.shape.dims
        and _reads_at(reader, update.operands[2:])
        and _feeds_elementwise(reader, {written}, {update}, inside)
    )


def _reads_at(reader: Instruction, indices: Sequence[Instruction]) -> bool:
    """Whether a slice, as large as an update, begins at the indices of the update."""
    if reader.opcode == "dynamic-slice":
        return reader.operands[1:] == tuple(indices)
    if reader.opcode != "slice" or any(index.opcode != "constant" for index in indices):
        return False
    boxes = zip(reader.as_(SliceAttributes).slice, reader.operands[0].shape.dims, strict=True)
    return all(
        stride == 1 and start == _clamped(index, size - (limit - start))
        for index, ((start, limit, stride), size) in zip(indices, boxes, strict=True)
    )


def _clamped(index: Instruction, most: int | Dim) -> int | Dim:
    """Return where an update with a constant index begins: so that all of it is in the array."""
    value = int(index.as_(ConstantAttributes).literal.scalar)
    return dim.maximum(dim.minimum(value, most), 0)


def _feeds_elementwise(
    source: Instruction,
    sinks: set[Instruction],
    behind: set[Instruction],
    inside: Container[Instruction],
) -> bool:
    """Whether every path from `source` to `sinks` is elementwise on its dimensions."""

    def users(item: Instruction) -> list[Instruction]:
        return [user for user in item.users if user in inside]

    for item in reachable([source], lambda item: () if item in sinks else users(item)):
        if item is not source and not item.has(Trait.ELEMENTWISE):
            return False
        if item.shape.dims != source.shape.dims:
            return False
        if item in sinks and not behind.issuperset(users(item)):
            return False
    return True


def may_share_operand(instruction: Instruction, number: int) -> bool:
    """Whether each output of the instruction may be written over operand `number` as it is read.

    True only if every output has the operand's dimensions and reads it, if at all, at the very
    element that it writes. Callers still compare byte sizes and see that the operand dies.
    """
    if instruction.opcode == "fusion":
        return number in memoize_by_structure(_fused_sharing, instruction.attributes.calls)[1]
    if instruction.opcode == "all-reduce":
        return _is_reduced_by_parts(instruction)
    operand = instruction.operands[number].shape
    fits = instruction.has(Trait.ELEMENTWISE) and instruction.shape.dims == operand.dims
    return fits and instruction.shape.is_array and operand.is_array


def _is_reduced_by_parts(op: Instruction) -> bool:
    """Whether each device folds a part of an all-reduce's operand, and takes the others' parts.

    It writes its own part while others read theirs, and the rest when they have read it.
    """
    module, size = op.computation.module, op.shape.bytes if op.shape.is_array else 0
    if module is None or not isinstance(size, int):
        return False
    groups = groups_of(op, grid_of(module))
    return bool(groups) and folds_parts(size, min(map(len, groups)))


def _shared_parameters(fused: Computation) -> frozenset[int]:
    """Return the numbers of the parameters over which every result may be written."""
    roots = [root for _, root in _roots(fused.root)]
    dims = roots[0].shape.dims if roots else None
    if any(root.shape.dims != dims or root.shape.is_tuple for root in roots):
        return frozenset()
    has_reordering = not fused.opcodes <= _ELEMENT_ORDER
    inside = fused.instructions if has_reordering else []
    return frozenset(
        number
        for number, parameter in enumerate(fused.parameters)
        if parameter.shape.is_array
        and parameter.shape.dims == dims
        and all(_writes_last(inner, parameter.shape, len(roots)) for inner in inside)
        and elementwise_users(parameter) is not None
    )


def _writes_last(inner: Instruction, operand: Shape, count: int) -> bool:
    """Whether a kernel with `inner` has read an element's index everywhere before it writes it.

    A contraction's results are written together once a sum is finished; so are a reduction's that
    have its result's dimensions, or a single one.
    """
    if inner.opcode == "dot":
        return True
    if inner.opcode == "reduce":
        return count == 1 or (inner.shape.is_array and inner.shape.dims == operand.dims)
    return inner.opcode in _ELEMENT_ORDER


def elementwise_users(parameter: Instruction) -> set[Instruction] | None:
    """Return all direct and indirect users of `parameter`; None unless all are elementwise."""

    def users(item: Instruction) -> list[Instruction]:
        return [user for user in item.users if user.opcode != "tuple" or not user.is_root]

    found: set[Instruction] = set()
    for user in reachable(users(parameter), users):
        if not user.has(Trait.ELEMENTWISE) or user.shape.dims != parameter.shape.dims:
            return None
        found.add(user)
    return found
