# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a dilated input, without the products with the gaps.

The result is several dense convolutions with parts of the kernel, one for each phase
(`analysis.convolution_phases`), with interleaved results. A convolution that a driver of the
library runs whole stays as it is; one of narrower floats is converted to f32 for that.

Many phases (the gradient of patches, large steps of upsampling) are features: those that use
equally many elements of the filter are features of one convolution, and there are at most two such
numbers along a dimension. Few phases are, too, where all use equally many: 4x4 filters by steps of
2 for 2 features took 0.5 of the time of four convolutions, for 3 features 0.87, 8x8 by steps of 4
0.5, and were compiled in 0.1 to 0.5 of it (AVX2, one thread, 2026-11-28).

Without this pass (AVX2, one thread, 2026-11-28) gradients of bf16 take 2.7 to 4.6 times as long,
that of 7x7 filters for 3 channels 5.8 times, steps of 8 for one feature 400 times, s32 4 times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import ClassVar

from ingot.analysis.convolution_phases import Phase, has_phases, phases_of
from ingot.analysis.direct_convolution import (
    has_even_phases,
    has_many_phases,
    runs_whole,
    runs_whole_in_f32,
)
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.window import WindowDimension
from ingot.passes.simplify.convolutions import canonical_labels, reordered, unreversed
from ingot.support.records import record, replace

MIN_PRODUCTS = 10_000_000
"""Products below which one kernel with gaps is better than several without."""


@record
class ConvolutionPhases(Pass):
    """Splits convolutions with a dilated input into dense ones."""

    name: ClassVar[str] = "convolution-phases"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"convolution"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite the convolutions of every reachable computation."""
        changed = False
        for item in module.find("convolution"):
            if item.control_predecessors:
                continue
            if runs_whole_in_f32(item):
                item.computation.replace(item, _in_f32(item))
                changed = True
            elif has_many_phases(item) or (has_even_phases(item) and _pays(item)):
                item.computation.replace(item, _as_features(item))
                changed = True
            elif _pays(item):
                convolution = _with_filter_order(item)
                convolution.computation.replace(convolution, _interleaved(convolution))
                changed = True
        return changed


def _pays(convolution: Instruction) -> bool:
    given = convolution.as_(ConvolutionAttributes)
    if not has_phases(given.window) or runs_whole(convolution):
        return False
    lhs, rhs = convolution.operands
    if 0 in lhs.shape.dims or None in _more_results(convolution):
        return False
    features = rhs.shape.dims[given.labels.rhs.index("o")]
    products = _int(convolution.shape.size) * _int(rhs.shape.size) // max(_int(features), 1)
    is_symbolic = not isinstance(convolution.shape.size, int)
    return is_symbolic or products >= MIN_PRODUCTS


@record
class _Phased:
    """A spatial dimension of a convolution whose phases become features.

    Result s * q + r - first meets element s * a + s - 1 - r of the filter, and the input at
    q + a - low, for each phase r of s.

    Attributes:
        step: its phases, s.
        size: elements of the filter.
        input: elements of the input.
        low: see above.
        first: results of all phases before the first one that is wanted.
        results: those that are wanted.
        count: results of each phase.
    """

    step: int
    size: int
    input: int
    low: int
    first: int
    results: int
    count: int

    @staticmethod
    def of(given: WindowDimension, size: int | Dim, results: int | Dim) -> _Phased:
        """Return how a dimension of an input of known `size` becomes phases."""
        assert isinstance(size, int)
        assert isinstance(results, int)
        step = given.base_dilation
        first = (step - 1 - given.low) % step
        low, count = (given.low + first + 1 - step) // step, -(-(results + first) // step)
        return _Phased(step, given.size, size, low, first, results, count)

    @property
    def taps(self) -> int:
        """Elements of the filter that a phase meets at most."""
        return -(-self.size // self.step)

    @property
    def alike(self) -> list[_Alike]:
        """The phases that meet one element less than others, and the others."""
        fewer = self.taps * self.step - self.size
        both = _Alike(0, fewer, self.taps - 1), _Alike(fewer, self.step, self.taps)
        return [one for one in both if one.start < one.end]

    def window(self, taps: int) -> WindowDimension:
        """Return how the filter of phases that meet `taps` elements slides."""
        return WindowDimension(
            taps, low=self.low, high=self.count - self.input + taps - 1 - self.low
        )


@record
class _Alike:
    """Phases `start` to `end` of a dimension, which meet `taps` elements of the filter each."""

    start: int
    end: int
    taps: int


def _as_features(convolution: Instruction) -> Instruction:
    """Return the results of convolutions whose features are the phases of each feature."""
    build = Builder(convolution.computation, convolution.metadata)
    given = convolution.as_(ConvolutionAttributes)
    labels, digits = given.labels, "".join(str(n) for n, _ in enumerate(given.window))
    order = f"b{digits}f"
    image = reordered(build, convolution.operands[0], labels.lhs, order)
    dims = dict(zip(labels.output, convolution.shape.dims, strict=True))
    sizes = zip(given.window, image.shape.dims[1:-1], digits, strict=True)
    phased = [_Phased.of(one, size, dims[digit]) for one, size, digit in sizes]
    taps = reordered(build, convolution.operands[1], labels.rhs, f"{digits}io")
    taps = _taps_by_phase(build, taps, given.window, phased)

    def part(alike: tuple[_Alike, ...]) -> Instruction:
        """Return the results of some phases: [batch, space..., phases..., features]."""
        rank, (*_, features) = len(alike), taps.shape.static_dims
        phases = tuple(one.end - one.start for one in alike)
        counts = tuple(one.count for one in phased)
        shape = convolution.shape.with_dims((dims["b"], *counts, *phases, features))
        if any(one.taps == 0 for one in alike):
            return build.full(0, shape)
        box = [(0, size, 1) for size in taps.shape.static_dims]
        for number, one in enumerate(alike):
            box[number] = (0, one.taps, 1)
            box[rank + 1 + number] = (one.start, one.end, 1)
        own = build.slice(taps, slice=tuple(box))
        own = build.reshape_to(
            own, (*own.shape.static_dims[: rank + 1], math.prod(phases) * features)
        )
        made = build.convolution(
            image,
            own,
            shape=shape.with_dims((dims["b"], *counts, own.shape.dims[-1])),
            window=tuple(to.window(one.taps) for to, one in zip(phased, alike, strict=True)),
            dim_labels=f"{order}_{digits}io->{order}",
            operand_precision=given.operand_precision,
        )
        return build.reshape_to(made, shape.dims)

    numbers = product(*(range(len(one.alike)) for one in phased))
    parts = {
        chosen: part(tuple(one.alike[n] for one, n in zip(phased, chosen, strict=True)))
        for chosen in numbers
    }
    for number in reversed(range(len(phased))):
        parts = {
            chosen: build.concatenate(*row, dimensions=(1 + len(phased) + number,))
            for chosen, row in _rows(parts, number).items()
        }
    return reordered(build, _in_place(build, parts[()], phased), order, labels.output)


def _taps_by_phase(
    build: Builder, taps: Instruction, window: Sequence[WindowDimension], phased: Sequence[_Phased]
) -> Instruction:
    """Return a filter [space..., channels, phases..., features]: what each phase meets.

    Behind the elements of phases that meet fewer than others are zeros.
    """
    rank, (*_, channels, features) = len(phased), taps.shape.static_dims
    backwards = tuple(n for n, one in enumerate(window) if one.reversal)
    taps = build.reverse(taps, dimensions=backwards) if backwards else taps
    edges = [(0, to.taps * to.step - one.size, 0) for to, one in zip(phased, window, strict=True)]
    zero = build.constant(0, taps.shape.dtype)
    taps = build.pad(taps, zero, padding=(*edges, (0, 0, 0), (0, 0, 0)))
    cut = (size for one in phased for size in (one.taps, one.step))
    taps = build.reshape_to(taps, (*cut, channels, features))
    kept, moved = range(0, 2 * rank, 2), range(1, 2 * rank, 2)
    taps = build.reverse(taps, dimensions=tuple(moved))
    return build.transpose(taps, dimensions=(*kept, 2 * rank, *moved, 2 * rank + 1))


def _in_place(build: Builder, made: Instruction, phased: Sequence[_Phased]) -> Instruction:
    """Return results [batch, space..., phases..., features] as [batch, space..., features]."""
    rank, batch, features = len(phased), made.shape.dims[0], made.shape.dims[-1]
    pairs = (at for n in range(rank) for at in (1 + n, 1 + rank + n))
    made = build.transpose(made, dimensions=(0, *pairs, 1 + 2 * rank))
    made = build.reshape_to(made, (batch, *(one.count * one.step for one in phased), features))
    wanted = ((one.first, one.first + one.results, 1) for one in phased)
    return build.slice(made, slice=((0, batch, 1), *wanted, (0, features, 1)))


def _in_f32(convolution: Instruction) -> Instruction:
    """Return a convolution of f32 operands, with its result converted back."""
    build = Builder(convolution.computation, convolution.metadata)
    made = convolution.computation.add(
        "convolution",
        tuple(build.convert_to(operand, F32) for operand in convolution.operands),
        convolution.attributes,
        shape=convolution.shape.with_dtype(F32),
        name=convolution.name,
        metadata=convolution.metadata,
    )
    return build.convert_to(made, convolution.shape.dtype)


def _more_results(convolution: Instruction) -> list[int | None]:
    """Return how many more results than input elements a phase has, along each dimension.

    Of symbolic sizes it may not be known: None.
    """
    given = convolution.as_(ConvolutionAttributes)
    labels, found = given.labels, list[int | None]()
    for number, one in enumerate(given.window):
        size = convolution.operands[0].shape.dims[labels.lhs.index(str(number))]
        count = convolution.shape.dims[labels.output.index(str(number))]
        step = one.base_dilation
        rest = count - step * size
        found.append(-(-rest // step) if isinstance(rest, int) else None if step > 1 else 0)
    return found


def _int(size: object) -> int:
    return size if isinstance(size, int) else 1


def _interleaved(convolution: Instruction) -> Instruction:
    """Return the interleaved results of the phases."""
    build = Builder(convolution.computation, convolution.metadata)
    given = convolution.as_(ConvolutionAttributes)
    labels = given.labels
    dims = convolution.shape.dims
    per_dimension: list[list[Phase]] = []
    counts = list(dims)
    for number, (one, more) in enumerate(
        zip(given.window, _more_results(convolution), strict=True)
    ):
        assert more is not None, "such convolutions stay as they are"
        if one.base_dilation > 1:
            size = convolution.operands[0].shape.dims[labels.lhs.index(str(number))]
            counts[labels.output.index(str(number))] = size + more
        per_dimension.append(phases_of(one, more))
    parts = {
        numbers: _dense(
            convolution,
            build,
            [phases[n] for phases, n in zip(per_dimension, numbers, strict=True)],
            tuple(counts),
        )
        for numbers in product(*(range(len(phases)) for phases in per_dimension))
    }
    # The last spatial dimension first: parts along it come to stand next to it.
    for number in reversed(range(len(per_dimension))):
        parts = _joined(build, parts, number, labels.output.index(str(number)))
    (whole,) = parts.values()
    if whole.shape.dims == dims:
        return whole
    return build.slice(whole, slice=tuple((0, size, 1) for size in dims))


def _with_filter_order(convolution: Instruction) -> Instruction:
    """Return the convolution with a kernel whose parts are contiguous."""
    build = Builder(convolution.computation, convolution.metadata)
    given = convolution.as_(ConvolutionAttributes)
    labels, wanted = given.labels, canonical_labels(given.labels)
    lhs, rhs = convolution.operands
    kernel, window = unreversed(rhs, given)
    if labels.rhs == wanted.rhs and kernel is rhs:
        return convolution
    kernel = reordered(build, kernel, labels.rhs, wanted.rhs)
    order = str(replace(labels, rhs=wanted.rhs))
    attributes = replace(given, dim_labels=order, window=window)
    made = convolution.computation.add(
        "convolution",
        (lhs, kernel),
        attributes,
        shape=convolution.shape,
        metadata=convolution.metadata,
    )
    convolution.computation.replace(convolution, made)
    return made


def _joined(
    build: Builder,
    parts: dict[tuple[int, ...], Instruction],
    number: int,
    dim: int,
) -> dict[tuple[int, ...], Instruction]:
    """Return the parts interleaved along dimension `dim`; their last number goes away."""
    found: dict[tuple[int, ...], Instruction] = {}
    for numbers, row in _rows(parts, number).items():
        if len(row) == 1:
            found[numbers] = row[0]
            continue
        dims = row[0].shape.dims
        apart = (*dims[: dim + 1], 1, *dims[dim + 1 :])
        wide = [build.reshape_to(part, apart) for part in row]
        together = build.concatenate(*wide, dimensions=(dim + 1,))
        longer = (*dims[:dim], dims[dim] * len(row), *dims[dim + 1 :])
        found[numbers] = build.reshape_to(together, longer)
    return found


def _rows(
    parts: Mapping[tuple[int, ...], Instruction], number: int
) -> dict[tuple[int, ...], list[Instruction]]:
    """Return lists of the parts that differ in their last number, which is number `number`."""
    rows: dict[tuple[int, ...], list[Instruction]] = {}
    for numbers, part in parts.items():
        rows.setdefault(numbers[:number], []).append(part)
    return rows


def _dense(
    convolution: Instruction, build: Builder, phases: list[Phase], dims: tuple[int | Dim, ...]
) -> Instruction:
    """Return the results of one phase of every dimension; zeros if it has no filter element."""
    lhs, rhs = convolution.operands
    shape = convolution.shape.with_dims(dims)
    if any(phase.window.size == 0 for phase in phases):
        return build.full(0, shape)
    given = convolution.as_(ConvolutionAttributes)
    cut = [(0, size, 1) for size in rhs.shape.dims]
    for number, phase in enumerate(phases):
        cut[given.labels.rhs.index(str(number))] = phase.filter_slice
    attributes = replace(given, window=tuple(phase.window for phase in phases))
    kernel = build.slice(rhs, slice=tuple(cut))
    return convolution.computation.add(
        "convolution", (lhs, kernel), attributes, shape=shape, metadata=convolution.metadata
    )
