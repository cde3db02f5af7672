# SPDX-License-Identifier: Apache-2.0
"""From a fused `fft` to an `FftKernel`, and the stages in which it runs.

A stage transforms many sequences of one length, some of them (`lanes`) side by side in vectors. A
transform of several dimensions is one stage per dimension. A long sequence of which there are few
becomes two stages (Bailey's four-step algorithm): n = n1 * n2, columns of n1 with a multiplication
by twiddle factors, then rows of n2; so that vectors are full and the parts stay in the cache.
Of many sequences of middle length each goes through both stages by itself, in memory that the
chunk keeps, so that the L1 cache holds it: side by side in vectors they would not fit.
A real transform of even length is a complex one of half the length and a step that takes it apart;
one of odd length is complex: in two stages the first reads, or the second writes, real columns, and
the other end of them is the half of the spectrum that is in memory.

Source: J. W. Cooley, J. W. Tukey 1965; D. H. Bailey, "FFTs in external or hierarchical memory".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, product, round_up
from ingot.hlo.dtype import COMPLEX_OF
from ingot.hlo.opset.transforms import FftAttributes
from ingot.kernel.fft.radices import factors
from ingot.kernel.ir import FftKernel
from ingot.kernel.loop.build import buffers_of
from ingot.llvm.machine_model import L1_STRIDE, LINE_BYTES
from ingot.support.records import record, replace

LONGEST = 4096
"""Longest sequence whose lanes are worked on together; beyond it they leave the cache."""

SHORTEST_SPLIT = 64
"""Sequences shorter than this are not worth two stages."""

FEWEST_LANES = 8
"""Least sequences side by side in each part of a split."""

SHORTEST_ALONE: Mapping[int, int] = {512: 240, 256: 900}
LONGEST_ALONE = 1 << 15
"""Sequences of these lengths go through their two stages one by one, by the bits of a vector: with
narrow ones as many as side by side fit the cache. 512x4096 took 0.52 of the time of sixteen side by
side, 256x256 0.6, of f64 1024 0.73; with AVX2 1024 0.8, 720 1.25; with SSE all 1.2 to 1.6 (Xeon,
2026-11-27)."""

MAX_IDLE = 1.3
"""Lanes for each sequence that a split may have at most."""

FOLD_BLOCK = 4096
"""Elements of a chunk of a fold stage."""

FINE = 1024
"""Size of the table of fine roots: a root of a fold stage is a fine one times a coarse one."""

CONFLICTING_BYTES = L1_STRIDE // 2
"""Rows whose size in bytes is a multiple of this are kept a cache line further apart."""

Area = Literal["operand", "result", "first", "second", "chunk first", "chunk second"]
"""Memory that a stage reads or writes; the last four are scratch. The last two are for one sequence
each, and every chunk has its own."""

Load = Literal["complex", "real", "packed", "half"]
Store = Literal["complex", "real", "unpacked", "half"]


@record
class Strides:
    """Where sequences lie: strides between sequences of different `outer` or lane, and elements.

    In elements of the area: real ones for the loads and stores called "real", else complex ones.
    """

    area: Area
    outer: int
    element: int
    lane: int


@record
class Stage:
    """`outer * lanes` complex transforms of one length.

    Attributes:
        length: elements of a sequence.
        outer, lanes: how many sequences; those of different lanes go into one vector.
        source, target: their addresses.
        load: what the source holds: all elements; real ones; half a spectrum and one element more,
            to be packed for a transform of half the length ("packed"); half a spectrum ("half").
        store: what the target gets: all elements; the real parts; half a spectrum and one element
            more, taken apart from a transform of half the length ("unpacked"); half a spectrum.
        twiddle: if not 0, element k of lane j is multiplied by w^(k*j), w of order `twiddle`.
        scale: factor of every result.
    """

    length: int
    outer: int | Dim
    lanes: int | Dim
    source: Strides
    target: Strides
    load: Load = "complex"
    store: Store = "complex"
    twiddle: int = 0
    scale: float = 1.0


@record
class FoldStage:
    """Takes a half-length transform apart, or packs for one, between two areas.

    Attributes:
        length: h, elements of the half-length transform; the spectrum has h + 1.
        outer: sequences.
        source, target: areas; sequences lie one after the other.
        packs: whether it packs (before an inverse transform) and does not take apart.
    """

    length: int
    outer: int | Dim
    source: Area
    target: Area
    packs: bool


@record
class FftPlan:
    """The stages of a kernel, and the scratch areas' sizes in complex elements."""

    stages: tuple[Stage | FoldStage, ...]
    first: int | Dim
    second: int | Dim

    @property
    def phases(self) -> list[list[Stage | FoldStage]]:
        """The stages; those through which each sequence goes by itself are together."""
        phases: list[list[Stage | FoldStage]] = []
        for stage in self.stages:
            if is_of_chunk(area_of(stage.source)):
                phases[-1].append(stage)
            else:
                phases.append([stage])
        return phases


def area_of(side: Strides | Area) -> Area:
    """Return the area of a stage's source or target."""
    return side.area if isinstance(side, Strides) else side


def is_of_chunk(area: Area) -> bool:
    """Whether each chunk has an area of its own, for one sequence."""
    return area in ("chunk first", "chunk second")


def build_fft_kernel(fused: Computation) -> FftKernel:
    """Return the kernel of a fused computation that is one `fft`."""
    root = fused.root
    given = root.as_(FftAttributes)
    operand = root.operands[0].shape
    batch = product(operand.dims[: operand.rank - len(given.fft_length)])
    buffers = buffers_of(fused)
    element = COMPLEX_OF.get(operand.dtype, operand.dtype)
    return FftKernel(given.fft_type, given.fft_length, batch, element, buffers)


def plan_fft(
    kernel: FftKernel, longest: int = LONGEST, fewest: int = FEWEST_LANES, vector_bits: int = 0
) -> FftPlan:
    """Return the stages of a kernel; none if it has no elements.

    Args:
        kernel: the transform.
        longest: elements of a sequence beyond which it becomes two stages.
        fewest: rows below which shorter ones do so, too.
        vector_bits: bits of a vector, if sequences may go through two stages by themselves.
    """
    if 0 in kernel.lengths or kernel.batch == 0:
        return FftPlan((), 0, 0)
    planner = _Planner(kernel, longest, fewest, vector_bits)
    planner.run()
    scale = 1 / math.prod(kernel.lengths) if kernel.inverse else 1.0
    last = max(n for n, stage in enumerate(planner.stages) if isinstance(stage, Stage))
    scaled = planner.stages[last]
    assert isinstance(scaled, Stage)
    # Packing before a half-length transform already divides by two.
    if scaled.load == "packed" or (kernel.kind == "IRFFT" and scaled.store != "real"):
        scale *= 2
    planner.stages[last] = replace(scaled, scale=scale)
    return FftPlan(tuple(planner.stages), planner.first, planner.second)


class _Planner:
    """Collects the stages of one kernel."""

    def __init__(self, kernel: FftKernel, longest: int, fewest: int, vector_bits: int) -> None:
        self.kernel = kernel
        self.longest = longest
        self.fewest = fewest
        self.lanes = vector_bits * 2 // kernel.element.bits
        self.shortest_alone = SHORTEST_ALONE.get(vector_bits, LONGEST_ALONE + 1)
        self.stages: list[Stage | FoldStage] = []
        self.first: int | Dim = 0
        self.second: int | Dim = 0
        *self.others, self.length = kernel.lengths
        self.rows = kernel.batch * math.prod(self.others)

    def run(self) -> None:
        kind = self.kernel.kind
        if kind in ("FFT", "IFFT"):
            area, pitch = self._between(self.length)
            self._line(self.length, "operand", area, pitch)
            self._columns(self.length, area, "result", pitch)
        elif kind == "RFFT":
            self._real_line()
            self._columns(self.length // 2 + 1, "result", "result", self.length // 2 + 1)
        else:
            source: Area = "operand"
            if self.others:
                self.first = self.rows * (self.length // 2 + 1)
                given = self.length // 2 + 1
                self._columns(given, "operand", "first", given)
                source = "first"
            self._inverse_real_line(source)

    def _between(self, inner: int) -> tuple[Area, int]:
        """Return where rows go before the columns are transformed, and their distance there.

        At a distance of CONFLICTING_BYTES, the elements of a column would share a few sets of the
        cache.
        """
        if len(self.others) != 1 or (inner * self.kernel.element.bytes) % CONFLICTING_BYTES:
            return "result", inner
        pitch = inner + LINE_BYTES // self.kernel.element.bytes
        self.second = self.rows * pitch
        return "second", pitch

    def _columns(self, inner: int, source: Area, target: Area, pitch: int) -> None:
        """Add a stage for every dimension but the last; the source's rows are `pitch` apart."""
        for axis in range(len(self.others) - 1, -1, -1):
            length = self.others[axis]
            between = inner * math.prod(self.others[axis + 1 :])
            outer = self.kernel.batch * math.prod(self.others[:axis])
            step = pitch if source == "second" else between
            here = Strides(source, length * step, step, 1)
            there = Strides(target, length * between, between, 1)
            self.stages.append(Stage(length, outer, between, here, there))
            source = target

    def _line(self, length: int, source: Area, target: Area, pitch: int) -> None:
        """Add the stages of complex sequences, `pitch` apart in the target."""
        split = self._split(length)
        if split is None:
            here, there = Strides(source, 0, 1, length), Strides(target, 0, 1, pitch)
            self.stages.append(Stage(length, 1, self.rows, here, there))
            return
        count, rest = split
        between: Area = "chunk first" if self._is_alone(length) else "first"
        if between == "first":
            self._reserve(self.rows * length)
        columns = Stage(
            count,
            self.rows,
            rest,
            _strides(source, length, rest, 1),
            _strides(between, length, rest, 1),
            twiddle=length,
        )
        into = _strides(target, pitch, count, 1)
        rows = Stage(rest, self.rows, count, _strides(between, length, 1, rest), into)
        self.stages.extend((columns, rows))

    def _reserve(self, size: int | Dim) -> None:
        # The area of another stage holds a whole spectrum of these rows, which is more.
        if self.first == 0:
            self.first = size

    def _real_line(self) -> None:
        """Add the stages of real sequences, from the operand into the result."""
        length, half = self.length, self.length // 2
        results = half + 1
        if length % 2:
            self._odd_line("operand", (length, "real"), (results, "half"))
        elif self._split(half) is None:
            source, target = Strides("operand", 0, 1, half), Strides("result", 0, 1, results)
            self.stages.append(Stage(half, 1, self.rows, source, target, store="unpacked"))
        else:
            between = self._between_folds(half)
            self._line(half, "operand", between, half)
            self.stages.append(FoldStage(half, self.rows, between, "result", packs=False))

    def _inverse_real_line(self, source: Area) -> None:
        """Add the stages from half spectra to real sequences, into the result."""
        length, half = self.length, self.length // 2
        given = half + 1
        if length % 2:
            self._odd_line(source, (given, "half"), (length, "real"))
        elif self._split(half) is None:
            here, there = Strides(source, 0, 1, given), Strides("result", 0, 1, half)
            self.stages.append(Stage(half, 1, self.rows, here, there, load="packed"))
        else:
            between = self._between_folds(half)
            self.stages.append(FoldStage(half, self.rows, source, between, packs=True))
            self._line(half, between, "result", half)

    def _odd_line(self, area: Area, given: tuple[int, Load], made: tuple[int, Store]) -> None:
        """Add the stages of sequences of odd length, from `area` into the result.

        `given`, `made`: elements of a sequence there, and what they are.
        """
        length = self.length
        (have, load), (want, store) = given, made
        split = self._two_factors(length) if self._splits_odd else None
        if split is None:
            here, there = Strides(area, 0, 1, have), Strides("result", 0, 1, want)
            self.stages.append(Stage(length, 1, self.rows, here, there, load, store))
            return
        count, rest = split
        self.second = self.rows * length
        here, between = Strides(area, have, rest, 1), Strides("second", length, rest, 1)
        self.stages.append(Stage(count, self.rows, rest, here, between, load, twiddle=length))
        between, there = Strides("second", length, 1, rest), Strides("result", want, count, 1)
        self.stages.append(Stage(rest, self.rows, count, between, there, store=store))

    @property
    def _splits_odd(self) -> bool:
        """Whether sequences of odd length become two stages: on a CPU, as complex ones do.

        One of 20383 took 0.14 of the time of one stage, of 999 0.3 (AVX-512, 2026-11-29).
        """
        if not self.lanes or self.length < SHORTEST_SPLIT:
            return False
        return self._are_few or self.length > self.longest

    def _between_folds(self, half: int) -> Area:
        """Return where spectra of half the length lie before or after they are folded."""
        if self._is_alone(half):
            return "chunk second"
        self.second = self.rows * half
        return "second"

    @property
    def _are_few(self) -> bool:
        return isinstance(self.rows, int) and self.rows < self.fewest

    def _is_alone(self, length: int) -> bool:
        """Whether each sequence goes through two stages by itself."""
        is_middle = self.shortest_alone <= length <= LONGEST_ALONE
        return is_middle and not self._are_few and self._full_split(length) is not None

    def _full_split(self, length: int) -> tuple[int, int] | None:
        """Return the two factors that leave the fewest lanes idle, if few enough are."""
        if factors(length) is None:
            return None
        pairs = [
            (count, length // count)
            for count in range(math.isqrt(length), FEWEST_LANES - 1, -1)
            if length % count == 0
        ]

        def idle(pair: tuple[int, int]) -> float:
            return sum(round_up(size, self.lanes) / size for size in pair) / 2

        best = min(pairs, key=idle, default=None)
        return best if best and idle(best) <= MAX_IDLE else None

    def _split(self, length: int) -> tuple[int, int] | None:
        """Return the two factors of a sequence that is worked on in two stages, or None."""
        if self._is_alone(length):
            return self._full_split(length)
        if length <= self.longest and not (self._are_few and length >= SHORTEST_SPLIT):
            return None
        return self._two_factors(length)

    def _two_factors(self, length: int) -> tuple[int, int] | None:
        """Return the two factors of a length that are nearest to each other, or None."""
        for count in range(math.isqrt(length), FEWEST_LANES - 1, -1):
            if length % count == 0:
                return count, length // count
        return None


def fold_strides(stage: FoldStage) -> tuple[Strides, Strides]:
    """Return where the sequences of a fold lie."""
    given, made = stage.length, stage.length + 1
    if stage.packs:
        given, made = made, given
    return _strides(stage.source, given, 1, 1), _strides(stage.target, made, 1, 1)


def _strides(area: Area, outer: int, element: int, lane: int) -> Strides:
    """Return where sequences lie: one after the other in the memory of a chunk."""
    return Strides(area, 0 if is_of_chunk(area) else outer, element, lane)
