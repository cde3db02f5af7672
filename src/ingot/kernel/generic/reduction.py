# SPDX-License-Identifier: Apache-2.0
"""Plain reductions: kernels that fold an array as it lies, the same code at every size.

The code of `reduce(x)` over rows, columns, planes or everything depends on the element type, the
combining op and the shape of vectors, not on extents. The same holds for a fold of little
arithmetic on up to three arrays: `x * y` (a product with a vector), `x + y * z`. So such a kernel
is library code that all programs share (`kernel.generic.generalize`), as XLA:CPU uses YNNPACK.
Pooling is included: a fold of a few elements for each lane, if padding changes nothing.

Invariant: the schedule is that of the kernel with its own extents, so the order of additions and
the result's bits are the same.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.kernel.expr import Expr, is_position, walk
from ingot.kernel.generic.generalize import IN_TILES, GenericKernel, generalized
from ingot.kernel.ir import LoopKernel, Pass, Reduction, Store
from ingot.kernel.schedule.loop_schedule import Effort, LaneBlocks, LoopSchedule
from ingot.kernel.schedule.tiles import SquareTiles
from ingot.support.records import replace

MIN_ELEMENTS = 1 << 16
"""Smaller reductions are compiled with their program's other kernels: narrow ones have other lanes,
and there are too many kinds to keep."""

MAX_AXES = 2
"""Axes that are kept, and that are folded: what alternating dimensions of a box come down to."""

MAX_WINDOW_AXES = 4
"""Axes that are kept where windows are folded: images, rows, columns, channels."""

MAX_WINDOW = 9
"""Elements of a window at most: they are written out."""

ARITHMETIC = frozenset({"add", "subtract", "multiply"})
"""Ops on elements before they are folded."""

MAX_ELEMENTS = 3
"""Elements of arrays that one value to fold is made of; there are few ways to make one then."""

MAX_ARITHMETIC = 3
"""Ops on that way."""

MAX_SELECT_NODES = 16
"""Longer ways to choose an element are their programs' own."""

SELECTING_OPS = frozenset({"select", "maximum", "minimum"})
"""Ops that choose an element, and likewise its index."""


def generic_reduction(kernel: LoopKernel, own: LoopSchedule) -> GenericKernel | str:
    """Return the generic kernel of a plain reduction, or why a kernel is none."""
    if not _is_candidate(kernel):
        return "it is not one fold of elements as they lie"
    axes = [*kernel.grid, *kernel.passes[0].axes]
    elements = dim.product(axis.extent for axis in axes)
    if isinstance(elements, Dim) or elements < MIN_ELEMENTS:
        return f"fewer than {MIN_ELEMENTS} elements, or how many is symbolic"
    if isinstance(own.strategy, SquareTiles):
        return IN_TILES
    own = replace(own, effort=Effort.FULL)
    if len(kernel.grid) <= MAX_AXES and _is_whole(kernel, elements):
        return generalized(kernel, own, "reduce")
    has_blocks = isinstance(own.strategy, LaneBlocks)
    if own.vector_axis is not None and has_blocks and _is_window(kernel.passes[0]):
        own = replace(own, strategy=replace(own.strategy, unrolls_passes=True))
        return generalized(kernel, own, "reduce")
    return "it folds neither a whole array nor small windows"


def _is_whole(kernel: LoopKernel, elements: int) -> bool:
    """Whether an input array has exactly `elements` elements."""
    return any(elements == buffer.size for buffer in kernel.buffers if not buffer.is_output)


def _is_window(item: Pass) -> bool:
    """Whether a pass folds few elements for each lane."""
    folded = dim.product(axis.extent for axis in item.axes)
    return isinstance(folded, int) and folded <= MAX_WINDOW and _is_sum(item.reductions[0])


def _is_candidate(kernel: LoopKernel) -> bool:
    """Whether the kernel is one fold of each element, stored as it is."""
    if kernel.serial or kernel.local_buffers or len(kernel.passes) != 2:
        return False
    if len(kernel.grid) > MAX_WINDOW_AXES:
        return False
    first, last = kernel.passes
    if not 1 <= len(first.axes) <= MAX_AXES or len(first.reductions) != 1 or first.stores:
        return False
    (fold,) = first.reductions
    if first.is_running or any(init.op != "constant" for init in fold.inits):
        return False
    if not (_is_sum(fold) or _is_argminmax(fold)):
        return False
    has_more = last.axes or last.reductions or kernel.buffers[-len(last.stores) - 1].is_output
    return not has_more and all(map(_is_result, last.stores))


def _is_result(store: Store) -> bool:
    """Whether a store is of a folded value; indices may be stored in a wider type."""
    value = store.value.args[0] if store.value.op == "convert" else store.value
    return store.is_simple and value.op == "reduced"


def is_element(load: Expr) -> bool:
    """Whether this is a load of each element of an array."""
    is_plain = load.op == "load" and not load.args and load.dtype is not PRED
    return is_plain and _is_linear(load.payload.index)


def _is_sum(fold: Reduction) -> bool:
    """Whether one op folds elements, or what little arithmetic makes of them."""
    if fold.combiner.opcode is None or len(fold.inputs) != 1:
        return False
    nodes = walk(fold.inputs)
    elements = sum(map(is_element, nodes))
    arithmetic = sum(node.op in ARITHMETIC and node.dtype is not PRED for node in nodes)
    is_little = 1 <= elements <= MAX_ELEMENTS and arithmetic <= MAX_ARITHMETIC
    return is_little and elements + arithmetic == len(nodes)


def _is_argminmax(fold: Reduction) -> bool:
    """Whether an element and its index on an axis are chosen, as arg max does."""
    if len(fold.inputs) != 2 or not is_element(fold.inputs[0]):
        return False
    nodes = list(walk(fold.combiner.results))
    return (
        is_position(fold.inputs[1])
        and len(nodes) <= MAX_SELECT_NODES
        and all(result.op in SELECTING_OPS for result in fold.combiner.results)
    )


def _is_linear(where: int | Dim) -> bool:
    """Whether an index is a sum of axes with steps."""
    terms = () if isinstance(where, int) else where.terms
    return all(len(key) == 1 and not key[0].function for key, _ in terms)
