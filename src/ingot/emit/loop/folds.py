# SPDX-License-Identifier: Apache-2.0
"""How the accumulators of a reduction are held: from the first element to the finished value.

Folds of one op start from its identity and take the initial value last; folds that find an index
step in order and are joined by index; all others start from their initial values.

Maxima and minima of floats are held as unsigned integers in the order of the floats, NaNs last: an
element costs a few integer ops, and joining lanes costs one, where the float op must look for NaN
and at the sign of zeros each time.

Scans, running maxima, minima, bits, sums and products, take a vector at a time. Within a register
each lane takes in the lane 1, 2, 4 … before it; then all take in what came before the register.
Only that step depends on the one before, so a scan costs one op for each register instead of one
for each element.

Invariants: the finished value is that of the combiner applied to the elements in order, but for
rounding of sums and products. A running value is of the elements up to its own and of no other. In
which order floats are added depends on lanes alone; nothing else has an order.

Source: Hillis and Steele, Data parallel algorithms (1986), within a register.
"""

from __future__ import annotations

from functools import cached_property

from ingot.emit.values.types import is_minifloat, is_narrow, narrow, register_type, widen
from ingot.emit.values.values import ValueEmitter, combine
from ingot.hlo.dtype import DType
from ingot.kernel.analysis.lane_counts import starts_from_identity
from ingot.kernel.ir import Combiner, Pass, Reduction
from ingot.kernel.loop.argminmax import arg_fold
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.semantics.identities import identity_of
from ingot.support.records import record

EXTREMA = frozenset({"maximum", "minimum"})

_BITS = {16: lt.I16, 32: lt.I32, 64: lt.I64}

MIN_BITS_OF_VECTORS = {16: 128, 32: 256, 64: 512}
"""Least vector bits of a CPU with maxima of unsigned integers, by the bits of an integer."""


def is_ordered(item: Pass, fold: Reduction, vector_bits: int) -> bool:
    """Whether the accumulators of `fold` in pass `item` are integers in the order of floats.

    They are for maxima and minima, if `vector_bits` are enough for integer maxima in lanes.
    """
    element = fold.inputs[0].dtype
    is_extremum = fold.combiner.opcode in EXTREMA and not item.is_running
    if not is_extremum or not element.is_float or is_minifloat(element):
        return False
    return vector_bits >= MIN_BITS_OF_VECTORS[element.bits]


def held_types(item: Pass, fold: Reduction, vector_bits: int) -> tuple[Type, ...]:
    """Return the types of the accumulators of `fold` in pass `item`, one lane each.

    `vector_bits`: those of the target's vectors; see `is_ordered`.
    """
    elements = tuple(value.dtype for value in fold.inputs)
    if is_ordered(item, fold, vector_bits):
        return tuple(_BITS[element.bits] for element in elements)
    return tuple(map(register_type, elements))


@record
class Folding:
    """One reduction of a pass, being emitted."""

    emitter: ValueEmitter
    item: Pass
    reduction: Reduction

    @cached_property
    def is_ordered(self) -> bool:
        """Whether accumulators are integers in the order of floats."""
        return is_ordered(self.item, self.reduction, self.emitter.f.module.vector_bits)

    @property
    def types(self) -> tuple[Type, ...]:
        """Types of the accumulators, one lane each."""
        return held_types(self.item, self.reduction, self.emitter.f.module.vector_bits)

    def start(self, lanes: int) -> list[Value]:
        """Return the accumulators: identities where lanes are folded, else the initial values."""
        f, reduction = self.emitter.f, self.reduction
        found: list[Value] = []
        for type, init, value in zip(self.types, reduction.inits, reduction.inputs, strict=True):
            if self.is_ordered:
                scalar = f.zero(type)
            elif starts_from_identity(reduction) and not self.item.is_running:
                scalar = f.const(type, identity_of(reduction.combiner.opcode or "", value.dtype))
            else:
                scalar = self.emitter.value(init)
            found.append(f.splat(scalar, lanes) if lanes > 1 else scalar)
        return found

    def step(self, old: tuple[Value, ...], inputs: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the accumulators with one more element in each lane."""
        if self.is_ordered:
            return self.merged(old, (self._ordered(inputs[0]),))
        index = arg_fold(self.item, self.reduction)
        if index is None:
            return combine(self.emitter, self.reduction.combiner, (*old, *inputs))
        return by_register(self.emitter, index.step, (*old, *inputs))

    def merged(self, one: tuple[Value, ...], later: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the accumulators of two parts of the elements, those of `later` behind."""
        if self.is_ordered:
            return (self.emitter.f.intrinsic("llvm.umax", one[0].type, [one[0], later[0]]),)
        return combine(self.emitter, self.reduction.combiner, (*one, *later))

    def joined(self, parts: tuple[Value, ...]) -> tuple[Value, ...]:
        """Combine the lanes pairwise, in an order that depends on the lane count alone."""
        while parts[0].type.lanes > 1:
            parts = self.halved(parts, 1)
        return parts

    def halved(self, parts: tuple[Value, ...], rows: int) -> tuple[Value, ...]:
        """Combine the first half of the lanes of each of `rows` rows with the second half."""
        f = self.emitter.f
        width = parts[0].type.lanes // rows
        half = width // 2
        low, high = (
            tuple(_of_rows(f, part, rows, width, range(start, start + half)) for part in parts)
            for start in (0, half)
        )
        return self.met(low, high)

    def met(self, one: tuple[Value, ...], other: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the accumulators of two parts of the elements that stand anywhere."""
        index = arg_fold(self.item, self.reduction)
        if index is None:
            return self.merged(one, other)
        return combine(self.emitter, index.join, (*one, *other))

    def finished(self, parts: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return what accumulators come to, with the initial values."""
        emitter, reduction = self.emitter, self.reduction
        if not starts_from_identity(reduction):
            return parts
        lanes = parts[0].type.lanes
        inits = tuple(emitter.vector_value(init, lanes) for init in reduction.inits)
        if self.is_ordered:
            (result,) = self.merged((self._ordered(inits[0]),), parts)
            return (self._unordered(result),)
        return combine(emitter, reduction.combiner, (*inits, *parts))

    # ---- floats as integers in their order

    def _ordered(self, value: Value) -> Value:
        """Return integers in the order of floats: 0 is the least extreme, NaNs are the most."""
        f, element = self.emitter.f, self._element
        bits_type = vector(_BITS[element.bits], value.type.lanes)
        if is_narrow(element):
            value = narrow(f, value, element, self.emitter.has_f16c)
        signed = _mirrored(f, f.bitcast(value, bits_type))
        return f.sub(self._reversed_minima(signed), self._least(bits_type))

    def _unordered(self, order: Value) -> Value:
        """Return the floats that integers stand for."""
        f, element = self.emitter.f, self._element
        signed = self._reversed_minima(f.add(order, self._least(order.type)))
        bits = _mirrored(f, signed)
        if is_narrow(element):
            return widen(f, bits, element, self.emitter.has_f16c)
        return f.bitcast(bits, vector(register_type(element), order.type.lanes))

    @property
    def _element(self) -> DType:
        return self.reduction.inputs[0].dtype

    def _reversed_minima(self, signed: Value) -> Value:
        is_minimum = self.reduction.combiner.opcode == "minimum"
        return self.emitter.f.not_(signed) if is_minimum else signed

    def _least(self, bits_type: Type) -> Value:
        """Return the infinity that everything else wins over, as a signed integer."""
        element = self._element
        infinity = (1 << (element.bits - 1)) - (1 << element.mantissa)
        return self.emitter.f.const(bits_type, -1 - infinity)


def _of_rows(f: FunctionBuilder, value: Value, rows: int, width: int, lanes: range) -> Value:
    """Return some lanes of each row of `width` lanes."""
    if rows == 1:
        return f.slice_lanes(value, lanes.start, len(lanes))
    order = [row * width + lane for row in range(rows) for lane in lanes]
    return f.shuffle(value, value, order)


def _mirrored(f: FunctionBuilder, bits: Value) -> Value:
    """Return floats' bits as signed integers in the floats' order, or those as bits again."""
    width = bits.type.element.bits
    sign = f.ashr(bits, f.const(bits.type, width - 1))
    return f.xor(bits, f.and_(sign, f.const(bits.type, (1 << (width - 1)) - 1)))


def by_register(
    emitter: ValueEmitter, combiner: Combiner, args: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Emit a combiner that compares register by register: masks of more lanes cost LLVM moves."""
    f, lanes = emitter.f, args[0].type.lanes
    bits = f.module.vector_bits
    step = max(1, bits // max(arg.type.element.bits for arg in args)) if bits else lanes
    parts = [
        combine(
            emitter, combiner, tuple(f.slice_lanes(arg, start, min(step, lanes)) for arg in args)
        )
        for start in range(0, lanes, step)
    ]
    return tuple(f.concat_lanes(list(same)) for same in zip(*parts, strict=True))


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
