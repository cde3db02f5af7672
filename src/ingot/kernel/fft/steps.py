# SPDX-License-Identifier: Apache-2.0
"""The steps that a block of an FFT stage's sequences takes, one after the other.

Between the stages of `kernel.fft.build` and their code: a block is as many sequences as a vector
has lanes. It is brought in, taken through Stockham passes from tile to tile, and stored. Each pass
takes one factor off the length. Lengths with a large prime factor (`factors`) are convolved
(Bluestein). The code of a step is the same at every size: what depends on sizes is a number or a
table (`Code.arguments`). An inverse transform is a transform with real and imaginary parts swapped
on the way in and out.

Invariant: a step reads what the one before wrote, and no step reads and writes one tile, but
"extend".
Source: T. G. Stockham 1966; L. I. Bluestein 1970; C. Van Loan, Computational Frameworks for the
FFT, 1992, sections 1.7 and 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ingot.hlo.dim import Dim, ceil_div, round_up
from ingot.kernel.fft.build import FoldStage, Stage, Strides
from ingot.kernel.fft.radices import factors, pass_radices
from ingot.llvm.machine_model import LINE_BYTES
from ingot.support.records import record

Kind = Literal[
    "first",
    "pass",
    "last",
    "only",
    "move",
    "real",
    "extend",
    "pack",
    "unpack",
    "times",
    "conjugate times",
]
"""The work of a step: a pass (the first, one with several interleaved sequences, the last, which
has no twiddle factors, the only one), moving sequences, moving real ones, the second half of a real
signal's spectrum, packing and taking apart (`emit.fft.butterflies`), products with a table."""

Side = Literal["tile", "columns", "rows", "grid", "sequence", "real columns", "half columns"]
"""Where a step reads or writes: a tile; memory whose lanes lie side by side, or whose elements do;
columns whose elements are multiplied by twiddle factors; one sequence whose neighbouring elements
are lanes; columns of real numbers; columns of which half a spectrum is in memory."""

_COLUMNS: Mapping[str, Side] = {"real": "real columns", "half": "half columns"}
"""Columns by what an area holds, if it is not all elements."""

MOST_TILES_BYTES, MAX_MOVED = 48 << 10, 1.1
"""Bytes of both tiles beyond which the L1 cache does not hold them: then the first pass reads rows
and the last one writes them, blocks of elements by way of scratch, if they move at most MAX_MOVED
times the elements. 757x288 took 0.86 of the time, 500x300 0.92, 500x192 0.92; with smaller tiles
500x96 1.3, 500x90 1.07 (Sapphire Rapids, one thread, 2026-11-30)."""

SIDES = (4, 8)
"""Half the lanes of vectors of which registers hold a square (`cpu.emit.fft.register_rows`)."""

NUMBERS: Mapping[Kind, tuple[str, ...]] = {
    "first": ("count", "table"),
    "pass": ("count", "stride", "table"),
    "last": ("stride",),
    "only": (),
    "move": ("count",),
    "real": ("count",),
    "extend": ("count",),
    "pack": ("count", "table"),
    "unpack": ("count", "table"),
    "times": ("count", "padded", "table"),
    "conjugate times": ("count", "padded", "table"),
}
SOURCE_NUMBERS: Mapping[Side, tuple[str, ...]] = {
    "tile": ("from",),
    "columns": ("source_step", "source_swaps"),
    "rows": ("source_step", "source_swaps"),
    "sequence": (),
    "real columns": ("source_step", "source_swaps"),
    "half columns": ("source_step", "source_swaps", "source_width", "whole"),
}
_MEMORY = ("target_step", "target_swaps", "factor")
TARGET_NUMBERS: Mapping[Side, tuple[str, ...]] = {
    "tile": ("to",),
    "columns": _MEMORY,
    "rows": _MEMORY,
    "grid": (*_MEMORY, "shift", "low", "high", "low_bytes", "high_bytes"),
    "sequence": (),
    "real columns": _MEMORY,
    "half columns": (*_MEMORY, "target_width", "half"),
}


@record
class Table:
    """A table of roots of unity: `name` and `sizes` are a function of `kernel.fft.tables`."""

    name: str
    sizes: tuple[int, ...]


Argument = int | float | Dim | Table


@record
class Code:
    """The properties that steps must share to use one code; only passes have a `radix`."""

    kind: Kind
    source: Side
    target: Side
    radix: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of a step's numbers, in the order of its slots."""
        return (
            *NUMBERS[self.kind],
            *SOURCE_NUMBERS[self.source],
            *TARGET_NUMBERS[self.target],
        )


@record
class Step:
    """A step: its code and the values of its arguments."""

    code: Code
    values: Mapping[str, Argument]


def padded_length(length: int) -> int:
    """Return the length of the convolution that stands for a transform of `length`."""
    least = 2 * length - 1
    return min(
        two * three
        for three in (1, 3, 9)
        for two in (1 << k for k in range(1, least.bit_length() + 1))
        if two * three >= least
    )


def tile_elements(stage: Stage) -> int:
    """Return the elements that both tiles must have."""
    length = stage.length if factors(stage.length) is not None else padded_length(stage.length)
    # Half a spectrum has one element more than the transform that it is packed for.
    return max(length, stage.length + 1)


def stage_steps(stage: Stage, lanes: int, scalar_bytes: int, inverse: bool) -> tuple[Step, ...]:
    """Return the steps of a block of a stage, in vectors of `lanes` lanes."""
    planner = _Planner(stage, lanes, scalar_bytes, inverse)
    planner.run()
    return tuple(planner.steps)


def fold_step(stage: FoldStage) -> Step:
    """Return the step of a fold of one sequence."""
    table = Table("fold_twiddles", (stage.length, int(stage.packs)))
    code = Code("pack" if stage.packs else "unpack", "sequence", "sequence")
    return Step(code, {"count": stage.length, "table": table})


def is_columns(strides: Strides) -> bool:
    """Whether sequences of different lanes lie side by side."""
    return strides.lane == 1 and strides.element != 1


def _side(strides: Strides, holds: str) -> Side:
    """Return where a block's elements are read or written that an area holds."""
    return _COLUMNS.get(holds, "columns") if is_columns(strides) else "tile"


class _Planner:
    """Collects the steps of one stage; `tile` is where the block is."""

    def __init__(self, stage: Stage, lanes: int, scalar_bytes: int, inverse: bool) -> None:
        self.stage = stage
        self.lanes = lanes
        self.pair = 2 * scalar_bytes
        self.scalar_bytes = scalar_bytes
        self.swaps = int(inverse)
        self.steps: list[Step] = []
        self.tile = 0
        self.tile_bytes = tile_bytes(stage, lanes, scalar_bytes)

    def run(self) -> None:
        stage = self.stage
        if self._is_in_registers():
            self._add("only", "rows", "rows", stage.length)
            return
        source, target = _side(stage.source, stage.load), _side(stage.target, stage.store)
        if target == "columns" and stage.twiddle:
            target = "grid"
        radices = self._ordered(pass_radices(stage.length))
        if radices and self._moves(stage.source, stage.load, radices[0]):
            source = "rows"
        if radices and self._moves(stage.target, stage.store, radices[-1]):
            target = "rows"
        if source == "tile":
            self._bring_in()
        if radices is None:
            self._convolve(source, target)
        else:
            self._passes(radices, stage.length, source, target)
        if target == "tile":
            self._take_out()

    def _ordered(self, radices: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Return the radices; first and last small ones whose passes transpose rows, if any do.

        The smallest is left for the last pass.
        """
        if radices is None or len(radices) < 2:
            return radices
        stage, rest, others = self.stage, list(radices), radices[-2::-1]
        first = next((r for r in others if self._moves(stage.source, stage.load, r)), rest[0])
        rest.remove(first)
        last = next((r for r in rest[::-1] if self._moves(stage.target, stage.store, r)), rest[-1])
        rest.remove(last)
        return (first, *rest, last)

    def _moves(self, side: Strides, holds: str, radix: int) -> bool:
        """Whether the first or last pass, of `radix`, transposes rows itself."""
        length, block = self.stage.length, max(1, self.lanes // 2)
        moved = ceil_div(length, radix * block) * radix * block
        is_large = 2 * self.tile_bytes > MOST_TILES_BYTES
        is_plain = holds == "complex" and not is_columns(side)
        return is_plain and radix < length and is_large and moved <= MAX_MOVED * length

    def _is_in_registers(self) -> bool:
        """Whether registers hold whole rows: no tile."""
        stage, side = self.stage, self.lanes // 2
        is_plain = stage.load == stage.store == "complex" and not stage.twiddle
        has_columns = is_columns(stage.source) or is_columns(stage.target)
        lengths = [side] if side and factors(side) == (side,) else []
        # 4096x64 took 0.55 of the time of blocks in tiles, 4096x128 0.51 (AVX-512, 2026-11-27).
        lengths += [side * side, 2 * side * side] if side in SIDES else []
        return is_plain and not has_columns and stage.length in lengths

    # ---- the steps

    def _add(
        self, kind: Kind, source: Side, target: Side, radix: int = 0, **given: Argument
    ) -> None:
        code = Code(kind, source, target, radix)
        values = {**self._source_values(source), **given}
        if target == source == "tile" and kind != "extend":
            self.tile = 1 - self.tile
        values |= self._target_values(target)
        self.steps.append(Step(code, {name: values[name] for name in code.arguments}))

    def _source_values(self, side: Side) -> dict[str, Argument]:
        if side == "tile":
            return {"from": self.tile * self.tile_bytes}
        strides = self.stage.source
        each = self.scalar_bytes if self.stage.load == "real" else self.pair
        step = strides.lane if side == "rows" else strides.element
        # Half a spectrum in a tile is swapped when it is packed or extended.
        swaps_later = side == "rows" and self.stage.load in ("packed", "half")
        values: dict[str, Argument] = {
            "source_step": step * each,
            "source_swaps": 0 if swaps_later else self.swaps,
        }
        if side == "half columns":
            values |= {"source_width": strides.element, "whole": self.stage.twiddle}
        return values

    def _target_values(self, side: Side) -> dict[str, Argument]:
        if side == "tile":
            return {"to": self.tile * self.tile_bytes}
        stage = self.stage
        strides, scale = stage.target, stage.scale
        each = self.scalar_bytes if stage.store == "real" else self.pair
        step = strides.lane if side == "rows" else strides.element
        values: dict[str, Argument] = {
            "target_step": step * each,
            "target_swaps": self.swaps,
            "factor": scale,
        }
        if side == "half columns":
            whole = stage.length * strides.element
            values |= {"target_width": strides.element, "half": whole // 2 + 1}
        return values | self._grid() if side == "grid" else values

    def _grid(self) -> dict[str, Argument]:
        """Return how w^(k*j) is found: rows k of a low and a high table, whose product it is."""
        rows, columns = self.stage.length, self.stage.twiddle // self.stage.length
        shift = (rows.bit_length() - 1) // 2
        low, high = 1 << shift, ceil_div(rows, 1 << shift)
        row = self.pair * self.lanes
        return {
            "shift": shift,
            "low": Table("grid", (low, 1, rows, columns, self.lanes)),
            "high": Table("grid", (high, low, rows, columns, self.lanes)),
            "low_bytes": low * row,
            "high_bytes": high * row,
        }

    def _passes(self, radices: tuple[int, ...], order: int, source: Side, target: Side) -> None:
        if len(radices) < 2:
            self._add("only", source, target, *(radices or [1]))
            return
        *others, last = radices
        stride = 1
        for radix in others:
            order //= radix
            table = Table("pass_twiddles", (order * radix, radix))
            if stride == 1:
                self._add("first", source, "tile", radix, count=order, table=table)
            else:
                self._add("pass", "tile", "tile", radix, count=order, stride=stride, table=table)
            stride *= radix
        self._add("last", "tile", target, last, stride=stride)

    def _convolve(self, source: Side, target: Side) -> None:
        """Bluestein: w^(jk) = c_j c_k / c_(j-k), so that the transform is a convolution."""
        length = self.stage.length
        padded = padded_length(length)
        radices = pass_radices(padded)
        assert radices is not None, "a padded length has small factors"
        chirp = Table("chirp", (length,))
        spectrum = Table("chirp_spectrum", (length, padded))
        self._add("times", source, "tile", count=length, padded=padded, table=chirp)
        self._passes(radices, padded, "tile", "tile")
        self._add("conjugate times", "tile", "tile", count=padded, padded=padded, table=spectrum)
        self._passes(radices, padded, "tile", "tile")
        self._add("conjugate times", "tile", target, count=length, padded=length, table=chirp)

    def _bring_in(self) -> None:
        stage, length = self.stage, self.stage.length
        if stage.load == "real":
            self._add("real", "rows", "tile", count=length)
        elif stage.load == "half":
            self._add("move", "rows", "tile", count=length // 2 + 1)
            self._add("extend", "tile", "tile", count=length)
        elif stage.load == "packed":
            self._add("move", "rows", "tile", count=length + 1)
            table = Table("fold_twiddles", (length, 1))
            self._add("pack", "tile", "tile", count=length, table=table)
        else:
            self._add("move", "rows", "tile", count=length)

    def _take_out(self) -> None:
        stage, length = self.stage, self.stage.length
        if stage.store == "real":
            self._add("real", "tile", "rows", count=length)
        elif stage.store == "half":
            self._add("move", "tile", "rows", count=length // 2 + 1)
        elif stage.store == "unpacked":
            # Against unpacking to a tile 918x58 took 0.83, 500x120 0.88, 500x320 0.91, 757x288 1.04
            # (Sapphire Rapids, one thread, 2026-11-30).
            has_blocks = length >= self.lanes > 1
            table = Table("fold_twiddles", (length, 0))
            target: Side = "rows" if has_blocks else "tile"
            self._add("unpack", "tile", target, count=length, table=table)
            if not has_blocks:
                self._add("move", "tile", "rows", count=length + 1)
        else:
            self._add("move", "tile", "rows", count=length)


def tile_bytes(stage: Stage, lanes: int, scalar_bytes: int) -> int:
    """Return the bytes of a tile of a stage: whole cache lines."""
    size = tile_elements(stage) * 2 * scalar_bytes * lanes
    return round_up(size, LINE_BYTES)
