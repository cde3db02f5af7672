# SPDX-License-Identifier: Apache-2.0
"""Which convolutions the driver of direct convolutions takes, and in which parts.

The strategy (`kernel.convolution.direct`) asks `Sizes.refusal` for its kernel; passes that leave it
a convolution with a dilated input ask `runs_whole`, which asks the same for each vector length, as
passes do not know the target.

A convolution is one part; one with a dilated input has a part for each phase
(`convolution_phases`), with every d-th element of the filter and every d-th result. Where there are
fewer than three spatial dimensions, dimensions of size 1 are put before them.

Invariant: what `runs_whole` leaves to the driver, the driver takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product

from ingot.analysis.convolution_phases import MAX_PHASES, has_phases, phases_of
from ingot.analysis.filter_gradient import is_of_filter
from ingot.analysis.library import ELEMENTS, VECTORS, driver_vector_bits
from ingot.hlo.dim import Dim, ceil_div, round_up
from ingot.hlo.dtype import BF16, F16, F32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.window import WindowDimension, window_elements
from ingot.llvm.machine_model import L1_STRIDE
from ingot.support.records import record, replace

DIMENSIONS = 3
MIN_LINE = 4
"""Register blocks of one line pay from this many results along the last dimension."""

LINE_RESULTS = range(96, 225)
"""Results of the lines into which one long row is divided; a divisor of the row if there is one.

Units then copy a part of a padded row, once for all features. Against whole rows, which each unit
copied for its own features, 3 taps along 3000 pixels from 384 to 384 channels took 0.69 of the
time, by steps of 2 0.56, from 80 to 384 0.77, 3200 by 2 from 512 to 512 0.52. Lines of 192 to 448
took 1.0 to 1.11 of that, of 48 to 112 0.98 to 1.0 (Sapphire Rapids, one thread, 2026-12-01)."""

MIN_SEGMENT, MAX_SEGMENT, MAX_SEGMENTS = 8, 256, 512
MAX_TAPS = 7
"""Taps of a line that a depthwise convolution keeps in registers at most."""

MIN_FEATURES = 4
OWN_VECTORS, MIN_USES = 4, 4
"""A depthwise convolution whose channels fill OWN_VECTORS vectors, which code of its own holds at
once, takes 0.6 of the driver's time if a pixel is in fewer than MIN_USES windows: 3x3 by steps of
2, 64 to 128 channels of 80x80 and 112x112 (AVX2, one thread, 2026-11-28). 5x5 windows and other
channels do not.
"""
MAX_WASTE = 1.4
"""Lanes of whole vectors for each feature at most, in direct convolutions and filter gradients."""

MIN_MOVED_LINE = 16
"""Results of a line from which on an epilogue moves features before space: as many as a vector."""

ASSUMED_BATCH = 8
"""Stands for a symbolic batch where the work is cut: enough images for all threads."""


@record
class ConvolutionSizes:
    """The sizes of a convolution.

    Attributes:
        batch: size of the batch dimension, which may be symbolic.
        sizes: spatial sizes of the input.
        results: spatial sizes of the result.
        channels, features: input features and output features, of all groups.
        groups: groups of features.
        window: how the filter slides.
    """

    batch: int | Dim
    sizes: tuple[int, ...]
    results: tuple[int, ...]
    channels: int
    features: int
    groups: int
    window: tuple[WindowDimension, ...]

    @property
    def is_depthwise(self) -> bool:
        """Whether each feature is a sum over its own channel alone."""
        return self.groups == self.channels == self.features > 1

    @property
    def group_channels(self) -> int:
        """Input features of a group."""
        return self.channels // self.groups

    @property
    def group_features(self) -> int:
        """Output features of a group."""
        return self.features // self.groups

    @property
    def images(self) -> int:
        """Images of the batch, or what a symbolic one is taken for."""
        return self.batch if isinstance(self.batch, int) else ASSUMED_BATCH


@record
class Sizes(ConvolutionSizes):
    """A convolution in three dimensions, as the driver runs it.

    Attributes:
        are_joined: whether groups are side by side: units have the features of several, each of
            which reads its own channels. Those of a depthwise convolution always are.
        line_pixels: where lines divide a row of results, the input's positions from line to line;
            else 0.
    """

    are_joined: bool = False
    line_pixels: int = 0

    @staticmethod
    def of(given: ConvolutionSizes) -> Sizes:
        """Return the three-dimensional sizes of a convolution."""
        ones = (1,) * (DIMENSIONS - len(given.window))
        return Sizes(
            given.batch,
            ones + given.sizes,
            ones + given.results,
            given.channels,
            given.features,
            given.groups,
            tuple(WindowDimension(1) for _ in ones) + given.window,
            given.is_depthwise,
        )

    @property
    def unit_groups(self) -> int:
        """Groups whose features are in units of their own."""
        return 1 if self.are_joined else self.groups

    @property
    def unit_features(self) -> int:
        """Features that units divide: of a group, or of all groups side by side."""
        return self.features // self.unit_groups

    @property
    def column_step(self) -> int:
        """The step in the input from feature to feature, 0 where there is none."""
        return int(self.are_joined)

    @property
    def is_padded(self) -> bool:
        """Whether a window reaches beyond the input."""
        planes, rows, _ = self.results
        reached = (self.reach(0, planes), self.reach(1, rows), self.width(rows))
        return any(
            one.low > 0 or reach - one.low > size
            for size, reach, one in zip(self.sizes, reached, self.window, strict=True)
        )

    @property
    def uses(self) -> float:
        """Windows that use a pixel, about."""
        return math.prod(one.size / one.stride for one in self.window)

    @property
    def copied(self) -> int:
        """Channels of a copied pixel."""
        return self.channels if self.unit_groups == 1 else self.group_channels

    def has_gaps(self, cell: int) -> bool:
        """Whether copied pixels need gaps, or all would share a set of the L1 cache."""
        return self.window[-1].stride * self.copied * cell % L1_STRIDE == 0

    def segment(self, cell: int) -> int:
        """Return the longest contiguous run of k, up to the limit."""
        length = self.run_length(cell)
        return next(n for n in range(min(length, MAX_SEGMENT), 0, -1) if length % n == 0)

    def run_length(self, cell: int) -> int:
        """Return how many elements of k are contiguous."""
        last = self.window[-1]
        if self.is_depthwise:
            is_plain = last.stride == 1 == last.window_dilation and not last.reversal
            return last.size if is_plain and last.size <= MAX_TAPS else 1
        is_dense = last.window_dilation == 1 and not last.reversal
        if self.group_channels == self.channels and is_dense and not self.has_gaps(cell):
            return self.channels * last.size
        return self.group_channels

    def panel(self, lanes: int) -> tuple[int, int]:
        """Return the vectors of a panel of features and their lanes; few features get fewer."""
        if self.unit_groups > 1 or self.is_depthwise or not MIN_FEATURES <= self.features <= lanes:
            return VECTORS, lanes
        while lanes // 2 >= self.features:
            lanes //= 2
        return 1, lanes

    def fills(self, panel: tuple[int, int]) -> bool:
        """Whether the features fill panels of (vectors, lanes) well enough."""
        columns, lanes = panel[0] * panel[1], panel[1]
        if self.is_depthwise:
            return 2 * self.features >= columns
        if self.unit_groups == 1 and columns // 2 < self.features <= columns:
            return True
        # The last panel has no more vectors than it needs.
        return round_up(self.unit_features, lanes) <= MAX_WASTE * self.unit_features

    def refusal(self, panel: tuple[int, int], cell: int) -> str:
        """Return why the driver would be slow; empty if it would not.

        Args:
            panel: (vectors, lanes) of a panel.
            cell: bytes of an element.
        """
        if not self.fills(panel):
            return f"{self.unit_features} features fill vectors of {panel[1]} lanes badly"
        if (
            self.is_depthwise
            and self.features % (OWN_VECTORS * panel[1]) == 0
            and self.uses < MIN_USES
        ):
            return "copied pixels would be used by few windows"
        parts = tuple(parts_of(self))
        if not parts or not all(part.is_suited(cell) for part in parts):
            return "its lines are short, or its channels make too many segments"
        return ""

    def reach(self, dimension: int, results: int) -> int:
        """Return how many positions of the input `results` neighbouring results read."""
        return self.window[dimension].reach(results)

    def width(self, lines: int) -> int:
        """Return the positions of a row that `lines` neighbouring lines read."""
        return self.reach(2, self.results[2]) + (lines - 1) * self.line_pixels


@record
class Part:
    """A part of a convolution.

    Attributes:
        sizes: the dense convolution that it is.
        filter_start, filter_steps: first row of its filter in the whole one, rows from element
            to element along each dimension.
        first: position of its first result in the whole result.
        batch_step, steps: distance of neighbouring results along the batch, and along each
            spatial dimension.
        is_all: whether it is the whole convolution.
        is_empty: whether no element of the filter meets the input: all sums are zero.
    """

    sizes: Sizes
    filter_start: int
    filter_steps: tuple[int, ...]
    first: int
    batch_step: int
    steps: tuple[int, ...]
    is_all: bool
    is_empty: bool

    @property
    def depth(self) -> int:
        """Products of a sum."""
        window = window_elements(self.sizes.window)
        return 0 if self.is_empty else window * self.sizes.group_channels

    def is_suited(self, cell: int) -> bool:
        """Whether its lines are long enough, and its segments not too short and too many."""
        sizes = self.sizes
        segment = sizes.segment(cell)
        is_short = segment < min(sizes.run_length(cell), MIN_SEGMENT)
        return (
            not is_short and self.depth // segment <= MAX_SEGMENTS and sizes.results[-1] >= MIN_LINE
        )

    @property
    def outer(self) -> int:
        """Units of an image, if each had all lines and features of a group."""
        return self.sizes.results[0] * self.sizes.unit_groups


def _rows(sizes: tuple[int, ...], inner: int) -> tuple[int, ...]:
    """Return the row-major strides of dimensions of `sizes`, with elements `inner` apart."""
    return tuple(inner * math.prod(sizes[number + 1 :]) for number in range(len(sizes)))


def parts_of(sizes: Sizes) -> Iterator[Part]:
    """Yield the parts of a convolution; none if its input is dilated and has no phases."""
    rows = _rows(tuple(one.size for one in sizes.window), sizes.group_channels)
    steps, batch_step = _rows(sizes.results, 1), math.prod(sizes.results)
    if all(one.base_dilation == 1 for one in sizes.window):
        whole = Part(sizes, 0, rows, 0, batch_step, steps, is_all=True, is_empty=False)
        yield from _lines_of(whole)
        return
    if not has_phases(sizes.window):
        return
    dilations = [one.base_dilation for one in sizes.window]
    phases = [phases_of(one, -size) for one, size in zip(sizes.window, sizes.sizes, strict=True)]
    for numbers in product(*map(range, dilations)):
        chosen = [phases[at][number] for at, number in enumerate(numbers)]
        is_empty = any(phase.window.size == 0 for phase in chosen)
        results = tuple(
            ceil_div(size - number, step)
            for size, number, step in zip(sizes.results, numbers, dilations, strict=True)
        )
        window = tuple(WindowDimension(1) if is_empty else phase.window for phase in chosen)
        if 0 in results:
            continue
        part = Part(
            replace(sizes, results=results, window=window),
            sum(phase.filter_slice[0] * step for phase, step in zip(chosen, rows, strict=True)),
            tuple(phase.filter_slice[2] * step for phase, step in zip(chosen, rows, strict=True)),
            sum(number * step for number, step in zip(numbers, steps, strict=True)),
            batch_step,
            tuple(by * step for by, step in zip(dilations, steps, strict=True)),
            is_all=False,
            is_empty=is_empty,
        )
        yield from _lines_of(part)


def is_one_row(*extents: tuple[int, ...]) -> bool:
    """Whether each of some arrays extends along its last dimension alone."""
    return all(size == 1 for each in extents for size in each[:-1])


def _lines_of(part: Part) -> Iterator[Part]:
    """Yield a part; two parts if it is one long row: lines of it, and the results left over."""
    sizes = part.sizes
    results = sizes.results[-1]
    if (
        not is_one_row(sizes.sizes, sizes.results)
        or sizes.is_depthwise
        or results < 2 * LINE_RESULTS.start
    ):
        yield part
        return
    line = max(LINE_RESULTS, key=lambda line: (results % line == 0, results % line, line))
    count, left = divmod(results, line)
    planes, rows, last = sizes.window
    step = part.steps[-1]
    yield replace(
        part,
        sizes=replace(
            sizes,
            results=(1, count, line),
            window=(planes, replace(rows, stride=0), last),
            line_pixels=line * last.stride,
        ),
        steps=(part.steps[0], line * step, step),
        is_all=part.is_all and left == 0,
    )
    if left > 0:
        before = count * line
        behind = replace(last, low=last.low - before * last.stride)
        rest = replace(sizes, results=(1, 1, left), window=(planes, rows, behind))
        yield replace(part, sizes=rest, first=part.first + before * step, is_all=False)


def has_many_phases(convolution: Instruction) -> bool:
    """Whether a convolution has so many phases that they always become features."""
    given = convolution.as_(ConvolutionAttributes)
    is_simple = all(one.stride == 1 and one.window_dilation == 1 for one in given.window)
    is_grouped = given.feature_group_count * given.batch_group_count > 1
    phases = math.prod(one.base_dilation for one in given.window)
    return is_simple and not is_grouped and phases > MAX_PHASES


def runs_whole(convolution: Instruction) -> bool:
    """Whether the driver runs a convolution with phases in one call.

    It reads operands from memory, so what converts them is a kernel before it.
    """
    has_gaps = has_phases(convolution.as_(ConvolutionAttributes).window)
    return _has_driven_type(convolution) and has_gaps and _is_driven(convolution)


def is_driven(convolution: Instruction) -> bool:
    """Whether a driver runs a convolution: it reads its operands from memory, as `runs_whole`."""
    return _has_driven_type(convolution) and _has_driver(convolution)


def is_driven_in_f32(convolution: Instruction) -> bool:
    """Whether a driver runs a convolution of narrow floats, once converted to f32."""
    kinds = _kinds(convolution)
    return kinds <= {F32, BF16, F16} and kinds != {F32} and _has_driver(convolution)


def _kinds(convolution: Instruction) -> set[DType]:
    return {item.shape.dtype for item in (convolution, *convolution.operands)}


def _has_driven_type(convolution: Instruction) -> bool:
    """Whether operands and result are of one type that drivers have."""
    kinds = _kinds(convolution)
    return len(kinds) == 1 and kinds <= {*ELEMENTS}


def _has_driver(convolution: Instruction) -> bool:
    """Whether a driver takes a convolution of f32 of these sizes."""
    window = convolution.as_(ConvolutionAttributes).window
    is_dense = all(one.base_dilation == 1 for one in window)
    if is_of_filter(convolution):
        return is_dense
    return (is_dense or has_phases(window)) and _is_driven(convolution)


def moves_features(convolution: Instruction) -> bool:
    """Whether the driver's epilogue may write a convolution with its features before space.

    It is given whole lines of a dense convolution, which it transposes while they are in the cache.
    The driver must read both operands from memory as they are.
    """
    given = convolution.as_(ConvolutionAttributes)
    digits = "".join(map(str, range(len(given.window))))
    labels = (given.labels.lhs, given.labels.rhs, given.labels.output)
    is_canonical = labels == (f"b{digits}f", f"{digits}io", f"b{digits}f")
    is_dense = all(one.base_dilation == 1 for one in given.window)
    is_plain = _has_driven_type(convolution) and given.feature_group_count == 1
    line = convolution.shape.dims[-2]
    if not (is_canonical and is_dense and is_plain and isinstance(line, int)):
        return False
    return line >= MIN_MOVED_LINE and _is_driven(convolution)


def _is_driven(convolution: Instruction) -> bool:
    given = _sizes_of(convolution)
    if given is None or len(given.window) > DIMENSIONS:
        return False
    sizes = Sizes.of(given)
    if sizes.is_depthwise:
        # The driver takes it only without an epilogue, which is not known yet.
        return False
    cell = max(F32.bits, convolution.shape.dtype.bits) // 8
    panels = (sizes.panel(bits // 8 // cell) for bits in driver_vector_bits())
    return not any(sizes.refusal(panel, cell) for panel in panels)


def _sizes_of(convolution: Instruction) -> ConvolutionSizes | None:
    """Return the sizes of a convolution; None if one is 0, or another than the batch symbolic."""
    given = convolution.as_(ConvolutionAttributes)
    lhs, rhs = convolution.operands
    labels = given.labels
    input = dict(zip(labels.lhs, lhs.shape.dims, strict=True))
    result = dict(zip(labels.output, convolution.shape.dims, strict=True))
    order = [*map(str, range(len(given.window))), "f"]
    sizes = known_sizes(input[label] for label in order)
    results = known_sizes(result[label] for label in order)
    is_known = sizes and results and known_sizes(rhs.shape.dims)
    if not is_known or input["b"] == 0 or given.batch_group_count > 1:
        return None
    assert sizes is not None
    assert results is not None
    return ConvolutionSizes(
        input["b"],
        sizes[:-1],
        results[:-1],
        sizes[-1],
        results[-1],
        given.feature_group_count,
        given.window,
    )


def known_sizes(dims: Iterable[int | Dim]) -> tuple[int, ...] | None:
    """Return sizes that are numbers above 0; None if one is not."""
    every = tuple(dims)
    known = tuple(size for size in every if isinstance(size, int) and size > 0)
    return known if len(known) == len(every) else None
