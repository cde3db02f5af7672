"""Windowed reductions that are scans (cumulative sums), by doubling.

A window as long as the dimension itself, padded on one side, folds every prefix (or suffix) anew:
n^2 work. Combining each element with the one `distance` before it, for distances 1, 2, 4, ...,
takes n log n.

Source: xla/hlo/transforms/expanders/reduce_window_rewriter.cc (which scans in blocks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.reduction import ReduceWindowAttributes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.window import WindowDimension
from ingot.passes.simplify.reducers import is_identity, reducer_opcode

SHORTEST = 8
"""Shorter scans are as fast window by window."""

_ASSOCIATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


@dataclass(frozen=True, slots=True)
class ScanExpander(Pass):
    """Rewrites `reduce-window` over all prefixes or suffixes of one dimension."""

    name: ClassVar[str] = "reduce-window-rewriter"

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite in every reachable computation."""
        changed = False
        for computation in module.post_order():
            for item in [i for i in computation.instructions if _is_scan(i)]:
                computation.replace(item, _scanned(item))
                changed = True
        return changed


def _is_scan(item: Instruction) -> bool:
    if item.opcode != "reduce-window" or len(item.operands) != 2:
        return False
    given: ReduceWindowAttributes = item.attributes
    opcode = reducer_opcode(given.to_apply)
    if opcode not in _ASSOCIATIVE or not is_identity(item.operands[1], opcode):
        return False
    places = [n for n, one in enumerate(given.window) if one != WindowDimension(1)]
    if len(places) != 1:
        return False
    size = item.operands[0].shape.dims[places[0]]
    return isinstance(size, int) and size >= SHORTEST and _side(given.window[places[0]], size) != 0


def _side(window: WindowDimension, size: int) -> int:
    """Return -1 if the window folds what is before each element, 1 if what is behind, else 0."""
    if window == WindowDimension(size, low=size - 1):
        return -1
    return 1 if window == WindowDimension(size, high=size - 1) else 0


def _scanned(item: Instruction) -> Instruction:
    given: ReduceWindowAttributes = item.attributes
    values, start = item.operands
    (place,) = (n for n, one in enumerate(given.window) if one != WindowDimension(1))
    size = given.window[place].size
    before = _side(given.window[place], size) < 0
    opcode = reducer_opcode(given.to_apply)
    build = Builder(item.computation, item.metadata)
    distance = 1
    while distance < size:
        kept = (0, size - distance) if before else (distance, size)
        padding = (distance, 0, 0) if before else (0, distance, 0)
        dims = values.shape.dims
        box = tuple((*kept, 1) if n == place else (0, dim, 1) for n, dim in enumerate(dims))
        margins = tuple(padding if n == place else (0, 0, 0) for n in range(len(dims)))
        shifted = build.pad(build.slice(values, slice=box), start, padding=margins)
        values = build.emit(opcode, values, shifted)
        distance *= 2
    return values
