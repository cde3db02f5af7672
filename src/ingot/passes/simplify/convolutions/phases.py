# SPDX-License-Identifier: Apache-2.0
"""Convolutions with a dilated input, without the products with the gaps.

With `base_dilation` s, the results r, r + s, ... of a dimension (a phase) use every s-th element of
the filter (`analysis.convolution_phases`). Phases that use equally many elements become features of
one dense convolution; there are at most two such numbers along a dimension. In a grouped
convolution each phase is a convolution of its own, so that depthwise ones stay depthwise. A
convolution that a driver of the library runs whole stays as it is; one of narrower floats is
converted to f32 for that.

Phases as features take 0.5 of the time of a convolution for each phase for 4x4 filters by steps of
2 for 2 features, 0.87 for 3 features, 0.5 for 8x8 by steps of 4, and are compiled in 0.1 to 0.5 of
it (AVX2, one thread, 2026-11-28).

Without this pass (AVX2, one thread, 2026-11-28) gradients of bf16 take 2.7 to 4.6 times as long,
that of 7x7 filters for 3 channels 5.8 times, steps of 8 for one feature 400 times, s32 4 times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, product

from ingot.analysis.convolution_phases import Phase, has_phases, phases_of
from ingot.analysis.direct_convolution import has_many_phases, runs_whole
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.passes.simplify.convolutions.canonicalizer import reordered, spatial_dimensions
from ingot.support.records import record, replace

MIN_GROUPED_PRODUCTS = 10_000_000
"""Products below which a grouped convolution is better one kernel with gaps than several without.

Depthwise gradients of 32x16x16 and 64x28x28 by steps of 2 take 0.9 of the time. Others take 1.0 to
0.14 of it without gaps at any size: the gradient of 7x7 filters of a 32x32 image with 3 channels
0.14, a transposed 4x4 filter from 32 channels to one 0.1 (AVX-512, one thread, 2026-11-30).
"""


@expander("convolution-phases", "convolution")
def convolution_phases(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Splits convolutions with a dilated input into dense ones."""
    if any(0 in value.shape.dims for value in (op, *op.operands)):
        return op
    dimensions = _dimensions(op) if has_many_phases(op) or _pays(op) else None
    return op if dimensions is None else _dense(op, dimensions)


def _pays(convolution: Instruction) -> bool:
    given = convolution.as_(ConvolutionAttributes)
    if not has_phases(given.window) or runs_whole(convolution):
        return False
    if given.feature_group_count * given.batch_group_count == 1:
        return True
    result, rhs = convolution.shape, convolution.operands[1].shape
    if not isinstance(result.size, int) or not isinstance(rhs.size, int):
        return True
    features = rhs.static_dims[given.labels.rhs.index("o")]
    return result.size * rhs.size // features >= MIN_GROUPED_PRODUCTS


@record
class _Phases:
    """Successive phases of a dimension whose elements of the filter slide in the same way.

    Attributes:
        count: how many they are.
        elements: (start, limit, stride) of the filter, for the first of them.
        window: how the elements of one phase slide.
    """

    count: int
    elements: tuple[int, int, int]
    window: WindowDimension

    @property
    def offset(self) -> int:
        """Phases whose first element of the filter comes after that of the first of these."""
        start, _, step = self.elements
        return step - 1 - start


@record
class _Dimension:
    """A spatial dimension of a convolution and its phases: result s * q + r - first is of phase r.

    Attributes:
        given: how the filter slides.
        first: results of all phases before the first one that is wanted.
        results: those that are wanted.
        count: results of each phase.
        phases: the phases of each dense convolution.
    """

    given: WindowDimension
    first: int
    results: int | Dim
    count: int | Dim
    phases: Sequence[_Phases]

    @staticmethod
    def of(
        given: WindowDimension, size: int | Dim, results: int | Dim, is_grouped: bool
    ) -> _Dimension | None:
        """Return the phases of a dimension of an input of `size`; None if its edges are unknown."""
        step = given.base_dilation
        if step == 1:
            whole = _Phases(1, (0, given.size, 1), replace(given, reversal=False))
            return _Dimension(given, 0, results, results, [whole])
        if not isinstance(results - step * size, int):
            return None
        # Counted from the phase whose first element is the last one, all may slide in the same way.
        firsts = (0,) if is_grouped else (0, (step - 1 - given.low) % step)
        found: list[_Dimension] = []
        for first in firsts:
            more = ceil_div(results + first - step * size, step)
            assert isinstance(more, int)
            phases = phases_of(replace(given, low=given.low + first, reversal=False), more)
            runs = _runs(phases, is_grouped)
            found.append(_Dimension(given, first, results, size + more, runs))
        return min(found, key=lambda one: len(one.phases))

    @property
    def step(self) -> int:
        """The number of its phases."""
        return self.given.base_dilation

    @property
    def elements(self) -> int:
        """Elements of the filter that a phase uses at most."""
        return ceil_div(self.given.size, self.step)


def _runs(phases: Sequence[Phase], is_grouped: bool) -> list[_Phases]:
    """Return the phases, those with equal windows together unless the convolution is grouped."""
    numbers = groupby(range(len(phases)), key=lambda n: n if is_grouped else phases[n].window)
    runs = [[phases[n] for n in run] for _, run in numbers]
    return [_Phases(len(run), run[0].filter_slice, run[0].window) for run in runs]


def _dimensions(convolution: Instruction) -> list[_Dimension] | None:
    given = convolution.as_(ConvolutionAttributes)
    is_grouped = given.feature_group_count * given.batch_group_count > 1
    found = [_Dimension.of(*sizes, is_grouped) for sizes in spatial_dimensions(convolution)]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _dense(convolution: Instruction, dimensions: Sequence[_Dimension]) -> Instruction:
    """Return the results of dense convolutions, put together."""
    build = Builder(convolution.computation, convolution.metadata)
    given = convolution.as_(ConvolutionAttributes)
    labels, digits = given.labels, "".join(map(str, range(len(dimensions))))
    order = f"b{digits}f"
    image = reordered(build, convolution.operands[0], labels.lhs, order)
    filter = reordered(build, convolution.operands[1], labels.rhs, f"{digits}io")
    backwards = tuple(n for n, one in enumerate(dimensions) if one.given.reversal)
    filter = build.reverse(filter, dimensions=backwards) if backwards else filter
    groups = given.feature_group_count * given.batch_group_count
    batch, features = convolution.shape.dims[labels.output.index("b")], filter.shape.dims[-1]
    assert isinstance(features, int)
    shape = convolution.shape.with_dims(
        (batch, *(one.count for one in dimensions), groups, features // groups)
    )
    given = replace(given, dim_labels=f"{order}_{digits}io->{order}")
    used = _filters(build, filter, dimensions, groups)
    parts = {
        phases: _part(build, (image, own), phases, given, shape) for phases, own in used.items()
    }
    # The last dimension first: phases along it come to stand next to it.
    for number, one in reversed(list(enumerate(dimensions))):
        rows: dict[tuple[_Phases, ...], list[Instruction]] = {}
        for phases, made in parts.items():
            rows.setdefault(phases[:number], []).append(made)
        parts = {
            key: _joined(build, row, number, one.count * one.step) for key, row in rows.items()
        }
    wanted = ((one.first, one.first + one.results, 1) for one in dimensions)
    box = ((0, batch, 1), *wanted, (0, features, 1))
    return reordered(build, build.slice(parts[()], slice=box), order, labels.output)


def _joined(
    build: Builder, parts: Sequence[Instruction], number: int, size: int | Dim
) -> Instruction:
    """Return the results of all phases of a dimension, of `size` together, in their order."""
    at = 1 + 2 * number
    whole = build.concatenate(*parts, dimensions=(at + 1,)) if len(parts) > 1 else parts[0]
    dims = whole.shape.dims
    return build.reshape_to(whole, (*dims[:at], size, *dims[at + 2 :]))


def _filters(
    build: Builder, filter: Instruction, dimensions: Sequence[_Dimension], groups: int
) -> dict[tuple[_Phases, ...], Instruction | None]:
    """Return what phases use of a filter [space..., channels, features], in the same order.

    The features of phases in one convolution are those of each group, phase by phase. Phases that
    use nothing have None.
    """
    found: dict[tuple[_Phases, ...], Instruction | None] = {}
    *_, channels, features = filter.shape.dims
    by_phase = None
    for phases in product(*(one.phases for one in dimensions)):
        if any(one.window.size == 0 for one in phases):
            found[phases] = None
        elif all(one.count == 1 for one in phases):
            box = (*(one.elements for one in phases), (0, channels, 1), (0, features, 1))
            found[phases] = build.slice(filter, slice=box)
        else:
            by_phase = by_phase or _by_phase(build, filter, dimensions, groups)
            found[phases] = _together(build, by_phase, phases)
    return found


def _together(build: Builder, by_phase: Instruction, phases: Sequence[_Phases]) -> Instruction:
    """Return what some phases use of a filter by phase, as features of one filter."""
    rank = len(phases)
    box = [(0, size, 1) for size in by_phase.shape.dims]
    for number, one in enumerate(phases):
        box[number] = (0, one.window.size, 1)
        box[rank + 2 + number] = (one.offset, one.offset + one.count, 1)
    own = build.slice(by_phase, slice=tuple(box))
    features = math.prod(own.shape.dims[rank + 1 :])
    return build.reshape_to(own, (*own.shape.dims[: rank + 1], features))


def _by_phase(
    build: Builder, filter: Instruction, dimensions: Sequence[_Dimension], groups: int
) -> Instruction:
    """Return what each phase uses: [space..., channels, groups, phases..., features of a group].

    Phases are in the reverse order of the first element that each uses. Behind the elements of
    phases that use fewer than others are zeros.
    """
    rank, (*_, channels, features) = len(dimensions), filter.shape.dims
    edges = ((0, one.elements * one.step - one.given.size, 0) for one in dimensions)
    zero = build.constant(0, filter.shape.dtype)
    filter = build.pad(filter, zero, padding=(*edges, (0, 0, 0), (0, 0, 0)))
    cut = (size for one in dimensions for size in (one.elements, one.step))
    filter = build.reshape_to(filter, (*cut, channels, groups, features // groups))
    elements, phases = range(0, 2 * rank, 2), range(1, 2 * rank, 2)
    filter = build.reverse(filter, dimensions=tuple(phases))
    order = (*elements, 2 * rank, 2 * rank + 1, *phases, 2 * rank + 2)
    return build.transpose(filter, dimensions=order)


def _part(
    build: Builder,
    operands: tuple[Instruction, Instruction | None],
    phases: tuple[_Phases, ...],
    given: ConvolutionAttributes,
    shape: Shape,
) -> Instruction:
    """Return the results of some phases: [batch, (results, phases)..., features].

    Args:
        build: where to.
        operands: the image [batch, space..., channels] and what the phases use of the filter.
        phases: those of each dimension.
        given: attributes of the convolution, in this order of dimensions.
        shape: the results of one phase [batch, space..., groups, features of a group].
    """
    rank, (image, filter) = len(phases), operands
    numbers = tuple(one.count for one in phases)
    apart = (*shape.dims[:-1], *numbers, shape.dims[-1])
    pairs = (at for n in range(rank) for at in (1 + n, 2 + rank + n))
    together = (0, *pairs, 1 + rank, 2 + 2 * rank)
    *dims, groups, features = (apart[at] for at in together)
    dims = (*dims, groups * features)
    if filter is None:
        return build.full(0, shape.with_dims(dims))
    made = build.computation.add(
        "convolution",
        (image, filter),
        replace(given, window=tuple(one.window for one in phases)),
        shape=shape.with_dims((*shape.dims[:-2], filter.shape.dims[-1])),
        metadata=build.metadata,
    )
    made = build.transpose(build.reshape_to(made, apart), dimensions=together)
    return build.reshape_to(made, dims)
