# SPDX-License-Identifier: Apache-2.0
"""Scans in lanes: running maxima, minima, bits, sums and products, a vector at a time.

Within a register each lane takes in the lane 1, 2, 4 … before it; then all take in what came before
the register. Only that step depends on the one before, so a scan costs one op for each
register instead of one for each element.

Invariant: a result is of the elements up to its own and of no other. In which order floats are
added depends on lanes alone; nothing else has an order.

Source: Hillis and Steele, Data parallel algorithms (1986), within a register.
"""

from __future__ import annotations

from ingot.emit.values.types import register_type
from ingot.emit.values.values import ValueEmitter, combine
from ingot.kernel.ir import Reduction
from ingot.llvm.values import Value
from ingot.semantics.identities import identity_of


def scan_lanes(
    emitter: ValueEmitter, fold: Reduction, before: Value, values: Value
) -> tuple[Value, Value]:
    """Return the running values of lanes, and what they come to, in every lane as `before` is."""
    f, lanes = emitter.f, values.type.lanes
    bits = f.module.vector_bits or values.type.element.bits * lanes
    step = min(lanes, max(1, bits // max(32, values.type.element.bits)))
    before = f.slice_lanes(before, 0, step)
    found: list[Value] = []
    for start in range(0, lanes, step):
        part = _prefixes(emitter, fold, f.slice_lanes(values, start, step))
        found += combine(emitter, fold.combiner, (before, part))
        total = f.splat(f.extract(part, step - 1), step)
        (before,) = combine(emitter, fold.combiner, (before, total))
    return f.concat_lanes(found), f.concat_lanes([before] * (lanes // step))


def _prefixes(emitter: ValueEmitter, fold: Reduction, part: Value) -> Value:
    """Return each lane folded with those before it."""
    f, lanes = emitter.f, part.type.lanes
    element = fold.inputs[0].dtype
    identity = identity_of(fold.combiner.opcode or "", element)
    neutral = f.splat(f.const(register_type(element), identity), lanes)
    shift = 1
    while shift < lanes:
        order = [lane - shift if lane >= shift else lanes for lane in range(lanes)]
        (part,) = combine(emitter, fold.combiner, (f.shuffle(part, neutral, order), part))
        shift *= 2
    return part
