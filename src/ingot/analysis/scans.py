# SPDX-License-Identifier: Apache-2.0
"""Scans: windowed reductions whose windows are all prefixes (or suffixes) of one dimension.

`cumsum` and its like reach HLO as `reduce-window` with a window as long as the dimension, padded on
one side. Computed window by window, that is n^2 work; a running value takes n.

What is computed from a scan's result alone, element by element, is the scan's epilogue: the kernel
that scans stores that instead (a sum accumulated in a wider type, say).

Invariant: a scan's initial value folded with itself is itself, so that padding changes nothing.

Source: xla/hlo/transforms/expanders/reduce_window_rewriter.cc (which scans in blocks).
"""

from __future__ import annotations

import numpy as np

from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.opset.reduction import ReduceWindowAttributes
from ingot.hlo.rewrite.pattern import splat_of
from ingot.hlo.window import WindowDimension
from ingot.support.records import record

SHORTEST = 4
"""Shorter scans are as fast window by window."""

MAX_EPILOGUE = 16
"""Instructions of an epilogue with one result, at most."""


@record
class Scan:
    """Which dimension is scanned, and whether from its end."""

    dimension: int
    is_reverse: bool


def scan_of(item: Instruction) -> Scan | None:
    """Return how a `reduce-window` scans, or None if it does not."""
    if item.opcode != "reduce-window":
        return None
    given = item.as_(ReduceWindowAttributes)
    dimensions = [n for n, one in enumerate(given.window) if one != WindowDimension(1)]
    if len(dimensions) != 1:
        return None
    (dim,) = dimensions
    size, window = item.operands[0].shape.dims[dim], given.window[dim]
    if not isinstance(size, int) or size < SHORTEST:
        return None
    is_reverse = window == WindowDimension(size, high=size - 1)
    if not is_reverse and window != WindowDimension(size, low=size - 1):
        return None
    return Scan(dim, is_reverse) if _folds_padding(item) else None


def is_scan(item: Instruction) -> bool:
    """Whether a `reduce-window` is a scan."""
    return item.opcode == "reduce-window" and scan_of(item) is not None


def scan_under(*roots: Instruction) -> Instruction | None:
    """Return the scan whose epilogue ends at all `roots`, or that one is; None if there is none.

    An epilogue reads nothing else but scalars. It has no expensive functions, which take lanes that
    a scan may not have.
    """
    found = set[Instruction]()
    stack, seen = list(roots), set(roots)
    while stack:
        item = stack.pop()
        if item.opcode == "reduce-window":
            found.add(item)
        elif not _is_step(item):
            return None
        else:
            read = [one for one in item.operands if one not in seen and not _is_scalar(one)]
            seen.update(read)
            stack += read
        if len(found) > 1 or len(seen) > MAX_EPILOGUE * len(roots):
            return None
    return next((one for one in found if is_scan(one)), None)


def _is_step(item: Instruction) -> bool:
    """Whether an op is a few instructions for each element, of the operands at that element."""
    if item.opcode == "bitcast-convert":
        return item.operands[0].shape.dims == item.shape.dims
    return item.has(Trait.ELEMENTWISE) and not item.has(Trait.EXPENSIVE)


def _is_scalar(item: Instruction) -> bool:
    """Whether a value is one scalar, or the same scalar everywhere."""
    if item.opcode == "broadcast":
        return not item.operands[0].shape.dims
    return not item.shape.dims or item.opcode == "constant"


def _folds_padding(item: Instruction) -> bool:
    """Whether each initial value folded with itself is itself."""
    starts = item.operands[len(item.operands) // 2 :]
    values = [splat_of(start) for start in starts]
    if any(value is None for value in values):
        return False
    scalars = [
        np.asarray(value, start.shape.dtype.numpy)
        for value, start in zip(values, starts, strict=True)
    ]
    # Few programs have such a window; the evaluator takes as long to import as they to compile.
    from ingot.evaluator import evaluate_computation

    folded = evaluate_computation(item.attributes.to_apply, [*scalars, *scalars])
    results = folded if isinstance(folded, tuple) else (folded,)
    pairs = zip(results, scalars, strict=True)
    return all(np.asarray(a).tobytes() == b.tobytes() for a, b in pairs)
