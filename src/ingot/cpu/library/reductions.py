# SPDX-License-Identifier: Apache-2.0
"""Plain reductions in library code.

A strategy of loop kernels: those of `kernel.forms.plain_reduction`. Invariant: extents, steps and
the schedule's numbers are in env, the code depends on the reduction's pattern alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ingot.cpu.library.form_kernels import COMMON_FOLDS, form_kernel
from ingot.cpu.library.parts import LibraryKernel, LibraryPart
from ingot.cpu.strategies.request import Request
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import F32, S32
from ingot.hlo.shape import Shape
from ingot.kernel.forms.plain_reduction import plain_reduction
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.loop.collapse import collapse
from ingot.llvm.target import TargetSpec

COMMON = (
    ((4096, 1024), (0,)), ((4096, 1024), (1,)), ((4096, 1024), (0, 1)),
    ((4096, 4096), (0,)), ((64, 128, 128), (1,)), ((64, 128, 128), (0, 2)),
    ((4096, 256), (1,)), ((4096, 128), (1,)), ((4096, 64), (1,)),
)  # fmt: skip
"""Common shapes and the folded dimensions: of few columns, whose rows are shared out, and many;
short rows, which are folded together."""


def match_reduction(request: Request) -> LibraryKernel | str:
    """Return how the library runs a loop kernel that is a plain reduction."""
    plain = plain_reduction(request.loop_kernel, request.loops.schedule)
    return plain if isinstance(plain, str) else form_kernel(request.target, "reduce", plain)


def common_reductions(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what sums, maxima and indices of maxima and minima need in f32."""
    folds = [_reduction(opcode, *case) for opcode, case in product(COMMON_FOLDS, COMMON)]
    folds += [_argminmax(direction, dim) for direction, dim in product(("GT", "LT"), (0, 1))]
    for fold in folds:
        kernel = collapse(build_loop_kernel(fold))
        found = match_reduction(Request(kernel, target))
        assert not isinstance(found, str), "a reduction of a whole array is plain"
        yield from found.parts


def _reduction(opcode: str, shape: tuple[int, ...], dims: tuple[int, ...]) -> Computation:
    """Return a reduction of some dimensions."""
    build = Builder(opcode)
    array = build.parameter(0, Shape.array(F32, shape))
    start = build.constant(0.0 if opcode == "add" else float("-inf"), F32)
    folder = scalar_computation(opcode, F32)
    return build.build(build.reduce(array, start, dimensions=dims, to_apply=folder))


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
