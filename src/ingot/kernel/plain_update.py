"""Plain updates: scatters that combine elements, or short rows, as they lie: sums by segment.

Which elements are combined, how, and in which type their places come decide the code; how many
there are and where they may go are numbers. So the form (`kernel.form`) of such a kernel is library
code, as that of a plain reduction is (`kernel.plain_reduction`).

Invariant: updates happen in the order of the grid, as in a kernel compiled alone.
"""

from __future__ import annotations

from ingot.kernel.expr import Expr, walk
from ingot.kernel.form import Form, form_of
from ingot.kernel.ir import LoopKernel, Store
from ingot.kernel.plain_reduction import is_element
from ingot.kernel.schedule import Vectors, schedule_loops

OF_PLACES = frozenset({
    "load", "constant", "convert", "compare", "and", "add", "select", "maximum", "minimum",
})  # fmt: skip
"""Ops that places go through: they are held within lengths, or counted from the end if negative
(JAX, NumPy)."""

MAX_PLACE_NODES = 24
"""Longer ways to compute a place are their programs' own."""


def plain_update(kernel: LoopKernel, vectors: Vectors) -> Form | None:
    """Return the form of a kernel that is a plain update, else None."""
    if not kernel.serial or kernel.kept or len(kernel.passes) != 1:
        return None
    (only,) = kernel.passes
    if only.axes or len(only.stores) != 1 or not _is_plain(only.stores[0]):
        return None
    own = schedule_loops(kernel, vectors)
    return form_of(kernel, own, for_every_size=True) if own.staged else None


def _is_plain(store: Store) -> bool:
    """Whether a store combines elements of an array by one op, at places that are another's."""
    if store.combiner is None or store.combiner.opcode is None:
        return False
    if not is_element(store.value) and store.value.op != "constant":
        return False
    of_place = walk((*store.values, *filter(None, (store.mask,))))
    return len(of_place) <= MAX_PLACE_NODES and all(map(_is_of_place, of_place))


def _is_of_place(node: Expr) -> bool:
    return is_element(node) if node.op == "load" else node.op in OF_PLACES
