# SPDX-License-Identifier: Apache-2.0
"""The graph of a report's kernels, ready to draw: boxes, lines, and a remark about folding.

The kernels of a large program are folded by source line (equal kernels, if they have none); if
there are many source lines, only those that move most bytes are drawn. Invariant: a box needs only
boxes of smaller number, so a folded graph has no cycle; edges back to an earlier line are not
drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.support.records import record
from ingot.support.text import format_size
from ingot.viz.content import KernelReport, ProgramReport
from ingot.viz.layout import curve, layers
from ingot.viz.terminal import PLUMBING, opcodes_text

MOST_BOXES = 60
WIDTH, BOX_WIDTH, BOX_HEIGHT, GAP, LAYER_GAP = 1040, 190, 54, 16, 44
_LETTERS = 24
_KINDS = (
    ("product", ops_with(Trait.CONTRACTION)),
    ("reduction", ops_with(FusionClass.REDUCTION, FusionClass.OPAQUE)),
    ("moves", ops_with(Trait.SUBSET_EXTRACTION, FusionClass.IN_PLACE)),
)


@record
class Box:
    """A box: its kernels, its corner, its kind (a CSS class), its lines of text."""

    kernels: tuple[int, ...]
    x: float
    y: float
    kind: str
    lines: tuple[str, ...]


@record
class Picture:
    """Boxes, the lines between them (SVG paths with the boxes' numbers), the height, a remark."""

    boxes: tuple[Box, ...]
    lines: tuple[tuple[str, int, int], ...]
    height: float
    remark: str

    @property
    def left(self) -> float:
        """The left end of the drawing, with a margin."""
        return min((box.x for box in self.boxes), default=0.0) - GAP

    @property
    def width(self) -> float:
        """The width of the drawing, with margins: a narrow graph has a narrow frame."""
        right = max((box.x for box in self.boxes), default=0.0) + BOX_WIDTH + GAP
        return right - self.left


def kind_of(opcodes: Sequence[str]) -> str:
    """Return the kind of a kernel, by the opcodes that dominate its time."""
    present = set(opcodes)
    for name, members in _KINDS:
        if present & members:
            return name
    return "moves" if present <= PLUMBING else "elementwise"


def picture_of(program: ProgramReport) -> Picture:
    """Return the drawing of a program's kernels."""
    groups, remark = _groups(program)
    owner = {number: at for at, group in enumerate(groups) for number in group}
    needs: list[dict[int, None]] = [{} for _ in groups]
    for kernel in program.kernels:
        for user in kernel.feeds:
            source, target = owner.get(kernel.number), owner.get(user)
            if source is not None and target is not None and source < target:
                needs[target][source] = None
    corners, height = _corners(layers([tuple(row) for row in needs]))
    boxes = tuple(
        _box([program.kernels[n] for n in group], *corners[at]) for at, group in enumerate(groups)
    )
    lines = tuple(
        (_line(boxes[need], boxes[at]), need, at) for at, row in enumerate(needs) for need in row
    )
    return Picture(boxes, lines, height, remark)


def _groups(program: ProgramReport) -> tuple[list[tuple[int, ...]], str]:
    """Return the kernels of each box, in the order of their first ones, and a remark on folding."""
    kernels = program.kernels
    if len(kernels) <= MOST_BOXES:
        return [(kernel.number,) for kernel in kernels], ""
    folded: defaultdict[str, list[int]] = defaultdict(list)
    for kernel in kernels:
        folded[kernel.lines[-1] if kernel.lines else kernel.name].append(kernel.number)
    groups = [tuple(group) for group in folded.values()]
    has_lines = any(kernel.lines for kernel in kernels)
    remark = f"{len(kernels)} kernels, " + (
        "folded by source line" if has_lines else "equal ones folded"
    )
    if len(groups) > MOST_BOXES:
        remark += f"; {MOST_BOXES} of {len(groups)} groups are drawn, those that move most bytes"
        traffic = [sum(_traffic(kernels[n]) for n in group) for group in groups]
        best = sorted(range(len(groups)), key=lambda at: -traffic[at])[:MOST_BOXES]
        groups = [groups[at] for at in sorted(best)]
    return groups, remark


def _traffic(kernel: KernelReport) -> int:
    return sum(s for s in (kernel.bytes_read, kernel.bytes_written) if isinstance(s, int))


def _corners(rows: Sequence[Sequence[int]]) -> tuple[dict[int, tuple[float, float]], float]:
    """Return the corner of each box, and the height of all."""
    corners: dict[int, tuple[float, float]] = {}
    most, y = int((WIDTH + GAP) // (BOX_WIDTH + GAP)), 12.0
    for row in rows:
        for start in range(0, len(row), most):
            part = row[start : start + most]
            left = (WIDTH - len(part) * (BOX_WIDTH + GAP) + GAP) / 2
            for at, number in enumerate(part):
                corners[number] = (left + at * (BOX_WIDTH + GAP), y)
            y += BOX_HEIGHT + (LAYER_GAP if start + most >= len(row) else GAP)
    return corners, max(y - LAYER_GAP + 12, 0)


def _box(kernels: Sequence[KernelReport], x: float, y: float) -> Box:
    first = kernels[0]
    numbers = tuple(kernel.number for kernel in kernels)
    kind = kind_of([name for kernel in kernels for name in kernel.opcodes])
    location = _short_location(first.lines[-1]) if first.lines else first.instruction
    if len(kernels) > 1:
        moved = sum(map(_traffic, kernels))
        what = location if first.lines else opcodes_text(first)
        texts = (f"{len(kernels)} kernels", what, f"{format_size(moved)} moved")
    else:
        moved = f"{format_size(first.bytes_read)} in, {format_size(first.bytes_written)} out"
        texts = (f"#{first.number} {opcodes_text(first)}", location, moved)
    return Box(numbers, x, y, kind, tuple(_cut(text) for text in texts))


def _short_location(location: str) -> str:
    return location.rpartition("/")[2]


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _line(upper: Box, lower: Box) -> str:
    middle = BOX_WIDTH / 2
    return curve((upper.x + middle, upper.y + BOX_HEIGHT), (lower.x + middle, lower.y))
