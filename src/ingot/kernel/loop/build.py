# SPDX-License-Identifier: Apache-2.0
"""From a fused computation to a `LoopKernel`: grid, passes, reductions, stores.

The frames (`analysis.frames`) give every root and reduction its axes. With reductions, the grid is
what all of them vary along; without, it is the whole of the main root. A reduction whose input
depends on others runs in a later pass; reductions and stores over the same axes share a pass.

The grid of a scan (`analysis.scans`) is every dimension but the scanned one. One pass walks that
dimension in order, folds, and stores at every step the running value, or what its epilogue makes of
it.

Invariant: lowered and stored values depend only on finished reductions of earlier passes.
"""

from __future__ import annotations

from ingot.analysis.frames import ONE, Frame, FrameMap, grid_of
from ingot.analysis.scans import scan_of
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.reduction import ReduceAttributes
from ingot.kernel import expr as ex
from ingot.kernel.elemental.convolution_index import loop_combiner, loop_extents, loop_fold
from ingot.kernel.elemental.lowering import ElementalLowering
from ingot.kernel.elemental.points import Point
from ingot.kernel.elemental.rules import combiner_exprs, elemental_lowering
from ingot.kernel.elemental.window import Fold, Windowed, window_extents, window_fold
from ingot.kernel.expr import Expr, converted
from ingot.kernel.index_math import linearize
from ingot.kernel.ir import Axis, Buffer, Combiner, LoopKernel, Pass, Reduction, Store
from ingot.support.diagnostics import InternalError
from ingot.support.records import fresh, mutable

WINDOWED = {
    "reduce-window": Windowed(window_extents, window_fold),
    "convolution": Windowed(loop_extents, loop_fold),
}
"""Reductions over windows: their own axes are none of their operands' dimensions."""


def roots_of(fused: Computation) -> tuple[Instruction, ...]:
    """Return the values that a fused computation results in."""
    return fused.root.operands if fused.root.opcode == "tuple" else (fused.root,)


def buffers_of(fused: Computation) -> tuple[Buffer, ...]:
    """Return the kernel's buffers: parameters in order, then results."""
    inputs = [Buffer(p.shape.dtype, p.shape.size, False) for p in fused.parameters]
    shapes = [shape for root in roots_of(fused) for _, shape in root.shape.leaves()]
    return (*inputs, *(Buffer(shape.dtype, shape.size, True) for shape in shapes))


def frames_of(fused: Computation) -> FrameMap:
    """Return the frames of all instructions, starting from the main (highest rank) root."""
    roots = roots_of(fused)
    frames = FrameMap()
    ranked = sorted(roots, key=lambda root: -sum(size != 1 for size in _result_dims(root)))
    main = ranked[0]
    if main.shape.is_tuple:
        frames.frames[main] = frames.axes_for(main.shape.elements[0].dims)
        frames.main_axes = tuple(a for a in frames.frames[main] or () if a != ONE)
    else:
        frames.start(main)
    for root in ranked[1:]:
        if _result_dims(root) == _result_dims(main):
            frames.frames[root] = frames.frames[main]
    order = fused.post_order()
    order.reverse()
    pending = [root for root in ranked[1:] if root not in frames.frames]
    _propagate(frames, order)
    for root in pending:
        _place_sibling(frames, root, main)
    if pending:
        _propagate(frames, order)
    return frames


def _result_dims(root: Instruction) -> tuple[int | Dim, ...]:
    return root.shape.elements[0].dims if root.shape.is_tuple else root.shape.dims


def _place_sibling(frames: FrameMap, root: Instruction, main: Instruction) -> None:
    """Give a smaller root that nothing else uses its axes: those of the main root it reduces."""
    if frames.frames.get(root) is not None:
        return
    if root.opcode == "reduce" and root.operands[0].shape.dims == main.shape.dims:
        whole = frames.frames[main] or ()
        given = root.as_(ReduceAttributes)
        frames.frames[root] = tuple(
            axis for dimension, axis in enumerate(whole) if dimension not in given.dimensions
        )


def _propagate(frames: FrameMap, order: list[Instruction]) -> None:
    for user in order:
        if user not in frames.frames:
            continue
        for operand, frame in zip(user.operands, frames.operand_frames(user), strict=True):
            frames.note(operand, frame)


@mutable
class LoopBuilder:
    """Builds the kernel of one fused computation; `build` is the way in."""

    fused: Computation
    frames: FrameMap
    lowering: ElementalLowering
    grid: tuple[int, ...] = ()
    numbers: int = 0
    levels: dict[int, int] = fresh(factory=dict)
    reductions: dict[tuple[int, tuple[str, ...]], list[Reduction]] = fresh(factory=dict)
    stores: dict[tuple[int, tuple[str, ...]], list[Store]] = fresh(factory=dict)

    def axis(self, number: int) -> Axis:
        """Return axis `number` of the frames as a loop axis."""
        return Axis(axis_name(number), self.frames.extents[number])

    def level(self, values: tuple[Expr, ...]) -> int:
        """Return the first pass in which all of `values` can be computed."""
        needed = {number for value in values for number in value.reductions}
        return 1 + max((self.levels[number] for number in needed), default=0)

    def add_reductions(self) -> None:
        """Make the reductions, inputs before users."""
        for instruction in self.fused.post_order():
            if is_reduction(instruction):
                self._add_reduction(instruction)

    def _add_reduction(self, instruction: Instruction) -> None:
        frame = self.frames.frames.get(instruction)
        if frame is None or grid_of(frame) != frozenset(self.grid):
            raise InternalError(f"%{instruction.name} does not fit the grid of its fusion")
        fold, axes = self._fold(instruction, frame)
        number = self.numbers
        self.numbers += 1
        level = self.level(fold.inputs)
        self.levels[number] = level
        inner = tuple(axis_name(a) for a in axes if a != ONE and a not in self.grid)
        made = Reduction(number, combiner_of(instruction), fold.inits, fold.inputs)
        self.reductions.setdefault((level, inner), []).append(made)
        grid_names = frozenset(axis_name(a) for a in self.grid)
        results = [
            ex.reduced(number, n, value.dtype, grid_names) for n, value in enumerate(fold.inputs)
        ]
        if not instruction.shape.is_tuple:
            # A convolution's sums may be wider than its result.
            results = [converted(value, instruction.shape.dtype) for value in results]
        self.lowering.reductions[instruction] = tuple(results)

    def _fold(self, instruction: Instruction, frame: Frame) -> tuple[Fold, Frame]:
        """Return what a reduction folds, and its own axes (among the grid's)."""
        windowed = WINDOWED.get(instruction.opcode)
        if windowed is not None:
            axes = self.frames.axes_for(windowed.extents(instruction))
            self.lowering.extents.update(
                {axis_name(a): self.frames.extents[a] for a in axes if a != ONE}
            )
            return windowed.fold(self.lowering, instruction, frame, axes), axes
        whole = self.frames.operand_frames(instruction)[0] or ()
        count = len(instruction.operands) // 2
        point = point_of(whole)
        inputs = tuple(self.lowering.operand(instruction, n, point) for n in range(count))
        inits = tuple(
            self.lowering.operand(instruction, count + n, Point(())) for n in range(count)
        )
        return Fold(inits, inputs), whole

    def add_store(self, buffer: int, root: Instruction, frame: Frame, value: Expr) -> None:
        """Store `value`, the result of `root`, at its index."""
        point = point_of(frame)
        where = linearize(point.index, _result_dims(root))
        inner = tuple(axis_name(a) for a in frame if a != ONE and a not in self.grid)
        key = (self.level((value,)), inner)
        self.stores.setdefault(key, []).append(Store(buffer, where, value))

    def passes(self) -> tuple[Pass, ...]:
        """Return the passes in order; values written once for each grid point are written last.

        So every operand is read before a result is written, and a result may take the memory of
        an operand (`analysis.in_place`).
        """
        once = [key for key in self.stores if not key[1]]
        last = max((key[0] for key in (*self.stores, *self.reductions)), default=0)
        finished = [store for key in sorted(once) for store in self.stores.pop(key)]
        if finished:
            self.stores[last + 1, ()] = finished
        names = {axis_name(n): self.axis(n) for n in range(len(self.frames.extents))}
        keys = dict.fromkeys((*self.reductions, *self.stores))
        keys = sorted(keys, key=lambda key: (key[0], len(key[1]) == 0))
        return tuple(
            Pass(
                tuple(names[name] for name in key[1]),
                tuple(self.reductions.get(key, ())),
                tuple(self.stores.get(key, ())),
            )
            for key in keys
        )


def axis_name(number: int) -> str:
    """Return the name of frame axis `number`."""
    return f"@{number}"


def point_of(frame: Frame) -> Point:
    """Return the point whose indices are the frame's axes."""
    return Point(tuple(0 if a == ONE else Dim.symbol(axis_name(a)) for a in frame))


def is_reduction(instruction: Instruction) -> bool:
    """Whether a loop kernel computes the instruction by a `Reduction`."""
    return instruction.opcode == "reduce" or instruction.opcode in WINDOWED


def combiner_of(instruction: Instruction) -> Combiner:
    """Return the combiner of a reduction or `scatter`."""
    if instruction.opcode == "convolution":
        return loop_combiner(instruction)
    reducer: Computation = instruction.attributes.to_apply
    arguments = {
        parameter: ex.argument(number, parameter.shape.dtype)
        for number, parameter in enumerate(reducer.parameters)
    }
    return Combiner(combiner_exprs(reducer.root, arguments))


def build_loop_kernel(fused: Computation) -> LoopKernel:
    """Return the loop kernel of a fused computation.

    Raises:
        InternalError: the fusion breaks the frame rule (a bug of the fusion pass).
        UnsupportedError: an instruction has no rule to be part of a kernel.
    """
    frames = frames_of(fused)
    extents = {axis_name(number): extent for number, extent in enumerate(frames.extents)}
    builder = LoopBuilder(fused, frames, elemental_lowering(fused, extents))
    reduces = [i for i in fused.instructions if is_reduction(i)]
    main = reduces[0] if reduces else roots_of(fused)[0]
    frame = frames.frames.get(main)
    if frame is None:
        raise InternalError(
            f"%{main.name} is computed at more than one index of its fusion {fused.name}"
        )
    builder.grid = tuple(sorted(grid_of(frame)))
    extents.update({axis_name(n): extent for n, extent in enumerate(frames.extents)})
    builder.add_reductions()
    number = len(fused.parameters)
    for root in roots_of(fused):
        number = _add_root(builder, root, number)
    grid = tuple(builder.axis(n) for n in builder.grid)
    return LoopKernel(grid, builder.passes(), buffers_of(fused))


def _add_root(builder: LoopBuilder, root: Instruction, number: int) -> int:
    frame = builder.frames.frames.get(root)
    if frame is None:
        raise InternalError(f"root %{root.name} is computed at more than one index of its fusion")
    if root.shape.is_tuple:
        for value in builder.lowering.reductions[root]:
            builder.add_store(number, root, frame, value)
            number += 1
        return number
    builder.add_store(number, root, frame, builder.lowering.value(root, point_of(frame)))
    return number + 1


def build_scan_kernel(fused: Computation, folded: Instruction) -> LoopKernel:
    """Return the kernel of the scan `folded` and of the epilogues that a fused computation has."""
    scan = scan_of(folded)
    assert scan is not None, "the lowering looks for a scan first"
    dims = folded.operands[0].shape.dims
    count = len(folded.operands) // 2
    frames = FrameMap()
    frame = frames.axes_for(dims)
    extents = {axis_name(n): extent for n, extent in enumerate(frames.extents)}
    lowering = elemental_lowering(fused, extents)
    point = point_of(frame)
    scanned = frame[scan.dimension]
    if scan.is_reverse:
        index: list[int | Dim] = list(point.index)
        index[scan.dimension] = dims[scan.dimension] - 1 - index[scan.dimension]
        point = Point(tuple(index))
    inputs = tuple(lowering.operand(folded, n, point) for n in range(count))
    inits = tuple(lowering.operand(folded, count + n, Point(())) for n in range(count))
    fold = Reduction(0, combiner_of(folded), inits, inputs)
    where = linearize(point.index, dims)
    first = len(fused.parameters)
    names = frozenset(extents)
    results = [ex.reduced(0, n, value.dtype, names) for n, value in enumerate(inputs)]
    if folded is not fused.root:
        (lowering.accumulators[folded],) = results
        results = [lowering.value(root, point) for root in roots_of(fused)]
    stores = tuple(Store(first + n, where, value) for n, value in enumerate(results))
    axes = {axis: Axis(axis_name(axis), frames.extents[axis]) for axis in frame if axis != ONE}
    sweep = Pass((axes.pop(scanned),), (fold,), stores, is_running=True)
    return LoopKernel(tuple(axes.values()), (sweep,), buffers_of(fused))
