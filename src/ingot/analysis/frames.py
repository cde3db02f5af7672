# SPDX-License-Identifier: Apache-2.0
"""Frames: the axes of the result along which each instruction of a fusion varies.

A fusion's results are computed over axes 0, 1, 2 …, one per dimension of its main root. The
*frame* of an instruction gives the axis of each of its dimensions, if every use inside the fusion
reads it at the same index; it is `None` when uses differ or the map is not that simple (slices,
gathers, …). Fusion decides with frames which instructions may share a kernel; kernel lowering uses
the same frames to build the passes. Dimensions of extent 1 have no axis (`ONE`).

Reductions: the result of a `reduce` is available once per grid point, so it needs a frame, and all
reductions of a fusion must vary along the same axes (the grid). The reduced dimensions get axes of
their own, shared between reductions with equal extents.

Source: the idea is XLA's indexing maps (xla/hlo/analysis/indexing_map.h), cut down to permutations.

Example:
    >>> FrameMap().axes_for((4, 1, "n"))
    (0, -1, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import ProjectedPermutation, Trait, ops_with
from ingot.hlo.opset.indexing import GatherAttributes
from ingot.hlo.opset.reduction import ReduceAttributes
from ingot.support.records import fresh, mutable

ONE = -1
Frame = tuple[int, ...]

_ELEMENTWISE = ops_with(Trait.ELEMENTWISE)


@mutable
class FrameMap:
    """Frames of the instructions of one fusion, found from its roots downwards.

    Attributes:
        extents: extent of each axis.
        frames: frame per instruction that has been reached; None: no single frame.
        reduce_axes: axes of reduced dimensions by their extents.
    """

    extents: list[int | Dim] = fresh(factory=list)
    frames: dict[Instruction, Frame | None] = fresh(factory=dict)
    reduce_axes: dict[tuple[int | Dim, ...], Frame] = fresh(factory=dict)

    def axes_for(self, dims: Iterable[int | Dim]) -> Frame:
        """Add an axis per dimension (none for extent 1) and return the frame."""
        frame: list[int] = []
        for size in dims:
            if size == 1:
                frame.append(ONE)
            else:
                frame.append(len(self.extents))
                self.extents.append(size)
        return tuple(frame)

    def note(self, instruction: Instruction, frame: Frame | None) -> bool:
        """Record a use of `instruction` at `frame`; return whether all uses still agree."""
        if not instruction.shape.dims and not instruction.shape.is_tuple:
            frame = ()
        if self.frames.get(instruction, frame) != frame:
            frame = None
        self.frames[instruction] = frame
        return frame is not None

    def note_operand(self, user: Instruction, operand: Instruction) -> None:
        """Record how `user`, whose own frame is known, reads one of its operands."""
        frame = self.frames.get(user)
        if frame is not None and user.opcode in _ELEMENTWISE:
            self.note(operand, frame)
            return
        for other, read in zip(user.operands, self.operand_frames(user), strict=True):
            if other is operand:
                self.note(operand, read)

    def operand_frames(self, user: Instruction) -> list[Frame | None]:
        """Return the frame at which `user`, whose own frame is known, reads each operand."""
        frame = self.frames.get(user)
        rule = _RULES.get(user.opcode)
        if user.opcode == "get-tuple-element":
            return [frame]
        if rule is not None and frame is not None:
            return rule(self, user, frame)
        if user.opcode in _ELEMENTWISE and frame is not None:
            return [frame if operand.shape.dims else () for operand in user.operands]
        indexing = user.definition.indexing
        if isinstance(indexing, ProjectedPermutation) and frame is not None:
            return [tuple([frame[number] for number in indexing.dims(user)])]
        return [() if not operand.shape.dims else None for operand in user.operands]

    def reduction_axes(self, user: Instruction, unreduced: Frame) -> Frame:
        """Return the axes of the dimensions that `user` reduces, shared where extents agree."""
        operand = user.operands[0].shape
        given = user.as_(ReduceAttributes)
        dimensions = given.dimensions
        extents = tuple(operand.dims[dim] for dim in sorted(dimensions))
        if extents in self.reduce_axes:
            return self.reduce_axes[extents]
        # The axes of the main root that the result does not vary along, if they fit.
        rest = tuple(axis for axis in self.main_axes if axis not in unreduced)
        wanted = tuple(size for size in extents if size != 1)
        if rest and tuple(self.extents[axis] for axis in rest) == wanted:
            names = iter(rest)
            frame = tuple(ONE if size == 1 else next(names) for size in extents)
        else:
            frame = self.axes_for(extents)
        self.reduce_axes[extents] = frame
        return frame

    main_axes: tuple[int, ...] = ()

    def start(self, root: Instruction) -> None:
        """Make `root` the main root: its dimensions are the first axes."""
        frame = self.axes_for(root.shape.dims)
        self.main_axes = tuple(axis for axis in frame if axis != ONE)
        self.note(root, frame)


def grid_of(frame: Frame) -> frozenset[int]:
    """Return the axes that a frame varies along."""
    return frozenset(axis for axis in frame if axis != ONE)


def _bitcast_convert(_: FrameMap, user: Instruction, frame: Frame) -> list[Frame | None]:
    same = user.operands[0].shape.dims == user.shape.dims
    return [frame if same else None]


def _reshape(_: FrameMap, user: Instruction, frame: Frame) -> list[Frame | None]:
    """Only reshapes that add or drop dimensions of extent 1 keep a frame."""
    before = [size for size in user.operands[0].shape.dims if size != 1]
    after = [size for size in user.shape.dims if size != 1]
    if before != after:
        return [None]
    axes = iter([axis for axis, size in zip(frame, user.shape.dims, strict=True) if size != 1])
    return [tuple(ONE if size == 1 else next(axes) for size in user.operands[0].shape.dims)]


def _reduce(frames: FrameMap, user: Instruction, frame: Frame) -> list[Frame | None]:
    operand = user.operands[0].shape
    given = user.as_(ReduceAttributes)
    dimensions = sorted(given.dimensions)
    axes = frames.reduction_axes(user, frame)
    inner = dict(zip(dimensions, axes, strict=True))
    unreduced = iter(frame)
    whole = tuple(inner[dim] if dim in inner else next(unreduced) for dim in range(operand.rank))
    count = len(user.operands) // 2
    return [*([whole] * count), *([()] * count)]


def _gather(_: FrameMap, user: Instruction, frame: Frame) -> list[Frame | None]:
    """Indices of one number are read at the result's batch dimensions, in their order."""
    indices = user.operands[1].shape
    given = user.as_(GatherAttributes)
    along = given.index_vector_dim
    if along < indices.rank and indices.dims[along] != 1:
        return [None, None]
    batch = [axis for dim, axis in enumerate(frame) if dim not in given.offset_dims]
    read = iter(batch)
    return [None, tuple(ONE if dim == along else next(read) for dim in range(indices.rank))]


_RULES: dict[str, Callable[[FrameMap, Instruction, Frame], list[Frame | None]]] = {
    "bitcast-convert": _bitcast_convert,
    "gather": _gather,
    "reshape": _reshape,
    "reduce": _reduce,
}
