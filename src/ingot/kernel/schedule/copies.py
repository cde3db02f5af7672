# SPDX-License-Identifier: Apache-2.0
"""Long runs that are only copied: a call of the C library's copy is as fast as a loop of vectors.

Concatenations, slices and other moves of long rows are such copies. `decide` asks about whole
kernels, `piece_loops` about each piece; `emit.loop.body` emits the calls.

Invariant: elements are copied as they are in memory, so every bit stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.dim import Dim
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Pass, Store

LONG_BYTES = 1024
"""Bytes of a run from which on a call is faster than a loop of vectors."""


def is_copied(passes: Sequence[Pass], axis: str, length: int | Dim) -> bool:
    """Whether all that passes do along `axis` is to copy runs of `length` elements.

    Runs of symbolic lengths are taken for long ones.
    """
    return all(
        not item.axes
        and not item.reductions
        and all(_is_copy(store, axis, length) for store in item.stores)
        for item in passes
    )


def _is_copy(store: Store, axis: str, length: int | Dim) -> bool:
    load = store.value
    if load.op != "load" or load.args or store.values:
        return False
    if store.mask is not None or store.combiner is not None:
        return False
    steps = {coefficient(load.payload.index, axis), coefficient(store.index, axis)}
    is_long = isinstance(length, Dim) or length * load.dtype.bytes >= LONG_BYTES
    return steps == {1} and is_long
