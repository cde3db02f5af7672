# SPDX-License-Identifier: Apache-2.0
"""Samples: loop kernels that many programs have, of which the library loads the generic kernels.

Sizes are those of common programs, since the number of lanes depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import product

from ingot.cpu.emit.loop.split import fold_template
from ingot.cpu.library.parts import LibraryPart, library_part
from ingot.cpu.strategies.generic_kernels import library_kernel
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import F32, S32
from ingot.hlo.shape import Shape
from ingot.kernel.generic.generalize import GenericKernel
from ingot.kernel.generic.indexing import generic_indexing, generic_iota
from ingot.kernel.generic.reduction import generic_reduction
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.loop.update import build_update_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.schedule.decide import schedule_loops
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.kernel.schedule.splits import SplitReduction
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec

FOLDS = {"add": 0.0, "maximum": float("-inf")}
"""Folds of f32, and where they start."""

REDUCED = (
    ((4096, 1024), (0,)), ((4096, 1024), (1,)), ((4096, 1024), (0, 1)),
    ((4096, 4096), (0,)), ((64, 128, 128), (1,)), ((64, 128, 128), (0, 2)),
    ((4096, 256), (1,)), ((4096, 128), (1,)), ((4096, 64), (1,)),
)  # fmt: skip
"""Shapes and the folded dimensions: of few columns, whose rows are shared out, and many; short
rows, which are folded together."""

SEGMENT_ROWS = ((), (16,))
"""What is summed by segment: numbers, and rows of a vector."""

IOTAS = (((1 << 20,), 0), ((1024, 1024), 1), ((1024, 1024), 0))
"""Shapes and the dimension whose positions are written."""

MAX_INPUTS = 4
"""Arrays at most of the sums whose folds are loaded."""


def common_generic_kernels(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what common reductions, sums by segment and positions need."""
    vectors = Vectors.of(target)
    for find, kernel in _kernels():
        found = find(kernel, schedule_loops(kernel, vectors))
        assert not isinstance(found, str), "the sample is recognized"
        yield from library_kernel(target, found).parts


def common_folds(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what sums of a few f32 arrays need."""
    vectors = Vectors.of(target)
    for kernel in _sums():
        schedule = schedule_loops(kernel, vectors)
        split = schedule.strategy
        assert isinstance(split, SplitReduction), "a sum of everything is computed in parts"
        assert split.fold is not None, "nothing follows the sum"
        yield library_part(target, fold_template(split.fold, schedule, target.has_fma))


def _kernels() -> Iterator[
    tuple[Callable[[LoopKernel, LoopSchedule], GenericKernel | str], LoopKernel]
]:
    """Yield common kernels, each with the function that finds its generic kernel."""
    folds = [_reduction(opcode, *case) for opcode, case in product(FOLDS, REDUCED)]
    folds += [_argminmax(direction, dim) for direction, dim in product(("GT", "LT"), (0, 1))]
    for fold in folds:
        yield generic_reduction, collapse(build_loop_kernel(fold))
    for dims, dimension in IOTAS:
        yield generic_iota, collapse(build_loop_kernel(_iota(dims, dimension)))
    for row in SEGMENT_ROWS:
        yield generic_indexing, build_update_kernel(_sum_by_segment(row))


def _sums() -> Iterator[LoopKernel]:
    """Yield folds of sums of a few long f32 arrays to one number."""
    for inputs, opcode in product(range(1, MAX_INPUTS + 1), FOLDS):
        yield collapse(build_loop_kernel(_reduction(opcode, (1 << 24,), (0,), inputs)))


def _reduction(
    opcode: str, shape: tuple[int, ...], dims: tuple[int, ...], inputs: int = 1
) -> Computation:
    """Return a reduction of some dimensions of an array, or of the sum of some arrays."""
    build = Builder(opcode)
    arrays = [build.parameter(n, Shape.array(F32, shape)) for n in range(inputs)]
    start = build.constant(FOLDS[opcode], F32)
    folder = scalar_computation(opcode, F32)
    total = reduce(build.add, arrays)
    return build.build(build.reduce(total, start, dimensions=dims, to_apply=folder))


def _argminmax(direction: str, dim: int) -> Computation:
    """Return the index of the greatest (GT) or least (LT) on a dimension, as JAX writes it."""
    fold = Builder("choice")
    left, index, right, other = (
        fold.parameter(number, Shape.array(element, ()))
        for number, element in enumerate((F32, S32, F32, S32))
    )
    wins = fold.or_(
        fold.compare(left, right, direction=direction), fold.compare(left, left, direction="NE")
    )
    is_same = fold.compare(left, right, direction="EQ")
    is_first = fold.compare(index, other, direction="LT")
    stays = fold.or_(wins, fold.and_(is_same, is_first))
    pair = fold.tuple_(fold.select(wins, left, right), fold.select(stays, index, other))
    build = Builder("argminmax")
    matrix = build.parameter(0, Shape.array(F32, (4096, 1024)))
    indices = build.iota(shape=Shape.array(S32, (4096, 1024)), iota_dimension=dim)
    worst = build.constant(float("-inf") if direction == "GT" else float("inf"), F32)
    starts = (worst, build.constant(0, S32))
    folded = build.reduce(matrix, indices, *starts, dimensions=(dim,), to_apply=fold.build(pair))
    return build.build(folded)


def _iota(dims: tuple[int, ...], dimension: int) -> Computation:
    """Return the positions in s32 along a dimension."""
    build = Builder("positions")
    return build.build(build.iota(shape=Shape.array(S32, dims), iota_dimension=dimension))


def _sum_by_segment(row: tuple[int, ...]) -> Computation:
    """Return sums of rows of f32 by segments in s32."""
    build = Builder("segments")
    sums = build.parameter(0, Shape.array(F32, (1000, *row)))
    segments = build.parameter(1, Shape.array(S32, (1 << 16, 1)))
    numbers = build.parameter(2, Shape.array(F32, (1 << 16, *row)))
    root = build.scatter(
        sums,
        segments,
        numbers,
        update_window_dims=tuple(range(1, 1 + len(row))),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        to_apply=scalar_computation("add", F32),
    )
    return build.build(root)
