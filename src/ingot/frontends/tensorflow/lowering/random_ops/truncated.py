# SPDX-License-Identifier: Apache-2.0
"""Normal numbers between two bounds, each batch with parameters of its own; TensorFlow's numbers.

The kernel draws number after number from one generator, by one of three kinds of rejection that a
batch's bounds choose; a group of draws ends with its batch. So a loop draws group after group here.
TensorFlow's numbers of large results depend on how its threads share the work; here all of it is
one share, as it is in TensorFlow for small results.

Source: TensorFlow's `kernels/parameterized_truncated_normal_op.cc`; Robert, "Simulation of
truncated normal variables" (1995).
"""

from __future__ import annotations

from ingot.frontends.building.indexing import row_at, with_row
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.random_ops import philox
from ingot.frontends.tensorflow.lowering.random_ops.parameters import arranged, numbers_for_each
from ingot.frontends.tensorflow.lowering.random_ops.philox import State
from ingot.frontends.tensorflow.lowering.random_ops.random import state_in_node
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F32, F64, PRED, S32, S64, U64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion
from ingot.support.records import mutable, record

_MOST_TRIES = 1000
_DEVIATIONS = 1.3
"""Bounds so far from the mean, on one side, let normal numbers be tried."""

_BATCH = 100
"""How many numbers are a batch where all have the same parameters and the generator is a node's."""

_Parameters = tuple[Instruction, Instruction, Instruction, Instruction]


@record
class _Batches:
    """What the loop reads, a number for each batch: see `of`."""

    mean: Instruction
    deviation: Instruction
    low: Instruction
    high: Instruction
    normal: Instruction
    uniform: Instruction

    @staticmethod
    def of(b: TensorBuilder, parameters: _Parameters) -> _Batches:
        """Return bounds in deviations, and which kind of rejection is used.

        The batch is negated where only its upper bound is finite, or is below the mean.
        """
        mean, deviation, least, most = parameters
        endless = b.compared("EQ", least, float("-inf"))
        is_negated = b.or_(endless, b.compare(most, mean, direction="LT"))
        deviation = b.select(is_negated, b.negate(deviation), deviation)
        ends = (b.select(is_negated, most, least), b.select(is_negated, least, most))
        low, high = (b.divide(b.subtract(end, mean), deviation) for end in ends)
        root = b.sqrt(b.binary("add", b.multiply(low, low), 4))
        power = b.binary("multiply", b.multiply(low, b.subtract(low, root)), 0.25)
        cutoff = b.binary("multiply", b.exponential(b.binary("add", power, 0.5)), 2)
        cutoff = b.divide(cutoff, b.add(low, root))
        left = b.and_(b.compared("LT", low, -_DEVIATIONS), b.compared("GE", high, 0))
        right = b.and_(b.compared("GT", high, _DEVIATIONS), b.compared("LE", low, 0))
        narrow = b.compare(b.subtract(high, low), cutoff, direction="LT")
        return _Batches(mean, deviation, low, high, b.or_(left, right), narrow)

    def parts(self) -> list[Instruction]:
        """The arrays that the loop carries."""
        return [self.mean, self.deviation, self.low, self.high, self.normal, self.uniform]


def _valid(b: TensorBuilder, parameters: _Parameters) -> Instruction:
    _, deviation, least, most = parameters
    ordered = b.compare(least, most, direction="LT")
    valid = b.and_(b.compared("GT", deviation, 0), ordered)
    finite = b.or_(b.is_finite(least), b.is_finite(most))
    return b.reduced("and", b.and_(valid, finite), (0,))


@record
class _Candidate:
    """A number in deviations, whether it is in the distribution, and whether it was drawn."""

    number: Instruction
    fits: Instruction
    drawn: Instruction


@mutable
class _Progress:
    """Where the loop is: batch, number in it, failed tries, whether the batch or all is over."""

    b: TensorBuilder
    batch: Instruction
    sample: Instruction
    tries: Instruction
    failed: Instruction
    made: Instruction
    each: Instruction
    total: Instruction

    def index(self) -> Instruction:
        """Which number of all is next."""
        return self.b.add(self.b.multiply(self.batch, self.each), self.sample)

    def is_full(self) -> Instruction:
        """Whether the batch, of which the last one may be short, has all its numbers."""
        b = self.b
        full = b.compare(self.sample, self.each, direction="GE")
        return b.or_(full, b.compare(self.index(), self.total, direction="GE"))

    def take(self, batch: _Batches, candidate: _Candidate) -> None:
        """Keep a candidate that fits."""
        b = self.b
        wanted = b.and_(b.not_(self.is_full()), candidate.drawn)
        value = b.add(b.multiply(candidate.number, batch.deviation), batch.mean)
        index = self.index()
        old = row_at(b, self.made, index)
        kept = b.and_(wanted, candidate.fits)
        self.made = with_row(b, self.made, index, b.select(kept, value, old))
        self.sample = b.add(self.sample, b.convert_to(kept, S64))
        missed = b.and_(wanted, b.not_(candidate.fits))
        tries = b.select(missed, b.binary("add", self.tries, 1), self.tries)
        self.tries = b.select(kept, b.zeros(tries.shape), tries)
        self.failed = b.or_(self.failed, b.compared("GE", self.tries, _MOST_TRIES))

    def parts(self) -> list[Instruction]:
        """The values that the loop carries."""
        return [
            self.batch, self.sample, self.tries, self.failed, self.made, self.each, self.total,
        ]  # fmt: skip

    def next_batch(self) -> None:
        """Go on to the next batch when this one has all its numbers."""
        b = self.b
        full = self.is_full()
        self.batch = b.add(self.batch, b.convert_to(full, S64))
        self.sample = b.select(full, b.zeros(self.sample.shape), self.sample)
        self.tries = b.select(full, b.zeros(self.tries.shape), self.tries)


def _candidates(b: TensorBuilder, batch: _Batches, words: list[Instruction]) -> list[_Candidate]:
    """Return the candidates of two blocks: all kinds are computed, the batch's one is chosen."""
    element = batch.mean.shape.dtype
    first, second = _uniforms(b, words[:4], element), _uniforms(b, words[4:], element)
    normals = _normals(b, words[:4], element)
    found: list[_Candidate] = []
    for number, (rand, u, normal) in enumerate(zip(first, second, normals, strict=True)):
        inside = b.compare(normal, batch.low, direction="GE")
        inside = b.and_(inside, b.compare(normal, batch.high, direction="LE"))
        flat, flat_fits = _uniform_candidate(b, batch, rand, u)
        value = b.select(batch.normal, normal, flat)
        fits = b.select(batch.normal, inside, flat_fits)
        drawn = b.or_(batch.normal, batch.uniform)
        if 2 * number < len(first):
            tail, tail_fits = _tail_candidate(b, batch, *first[2 * number : 2 * number + 2])
            value = b.select(drawn, value, tail)
            fits = b.select(drawn, fits, tail_fits)
            drawn = b.constant(True, PRED)
        found.append(_Candidate(value, fits, drawn))
    return found


def _uniforms(b: TensorBuilder, words: list[Instruction], element: DType) -> list[Instruction]:
    if element is F64:
        return [philox.unit_float(b, philox.double_bits(b, *words[n : n + 2]), F64) for n in (0, 2)]
    return [philox.unit_float(b, word, element) for word in words]


def _normals(b: TensorBuilder, words: list[Instruction], element: DType) -> list[Instruction]:
    drawn = _uniforms(b, words, F64 if element is F64 else F32)
    pairs = [philox.box_muller(b, *drawn[n : n + 2]) for n in range(0, len(drawn), 2)]
    return [b.convert_to(number, element) for pair in pairs for number in pair]


def _uniform_candidate(
    b: TensorBuilder, batch: _Batches, rand: Instruction, u: Instruction
) -> tuple[Instruction, Instruction]:
    """A number between the bounds, kept as likely as its density says."""
    z = b.add(b.multiply(rand, b.subtract(batch.high, batch.low)), batch.low)
    below = b.compared("LT", batch.low, 0)
    most = b.select(below, b.zeros(z.shape), b.multiply(batch.low, batch.low))
    power = b.binary("multiply", b.subtract(most, b.multiply(z, z)), 0.5)
    return z, b.compare(u, b.exponential(power), direction="LE")


def _tail_candidate(
    b: TensorBuilder, batch: _Batches, rand: Instruction, u: Instruction
) -> tuple[Instruction, Instruction]:
    """An exponential number above the lower bound, kept as likely as its density says."""
    low = batch.low
    root = b.sqrt(b.binary("add", b.multiply(low, low), 4))
    alpha = b.binary("multiply", b.add(low, root), 0.5)
    z = b.add(b.divide(b.negate(b.log(rand)), alpha), low)
    near = b.compare(low, alpha, direction="LT")
    x = b.select(near, b.subtract(alpha, z), b.subtract(low, alpha))
    chance = b.exponential(b.binary("multiply", b.negate(b.multiply(x, x)), 0.5))
    fits = b.compare(u, chance, direction="LE")
    return z, b.and_(fits, b.compare(z, batch.high, direction="LT"))


def _numbers(op: Op, state: State, parameters: _Parameters, each: Size, total: Size) -> Instruction:
    """Return `total` numbers, `each` of them for each of the parameters; the last may have less."""
    b = op.b
    valid = _valid(b, parameters)
    emit_assertion(b, valid, "Invalid parameters")
    (count,) = parameters[0].shape.dims
    zero = b.scalar(0, S64)
    start = [
        state.key, state.low, state.high, *_Batches.of(b, parameters).parts(), b.scalar(count, S64),
        zero, zero, b.scalar(0, S32), b.not_(valid),
        b.zeros(Shape.array(parameters[0].shape.dtype, (total,))),
        b.scalar(each, S64), b.scalar(total, S64),
    ]  # fmt: skip
    *_, failed, made, _, _ = b.loop(start, _goes_on, _draw)
    drawn = b.or_(b.not_(failed), b.not_(valid))
    text = "TruncatedNormal rejection sampler failed to accept a sample."
    emit_assertion(b, drawn, text, "INTERNAL")
    return made


def _goes_on(b: TensorBuilder, values: list[Instruction]) -> Instruction:
    count, batch, _, _, failed, *_ = values[9:]
    return b.and_(b.compare(batch, count, direction="LT"), b.not_(failed))


def _draw(b: TensorBuilder, values: list[Instruction]) -> list[Instruction]:
    """Draw one group, which is two blocks where uniform numbers are tried."""
    (key, low, high), arrays, count = values[:3], values[3:9], values[9]
    progress = _Progress(b, *values[10:])
    batch = _Batches(*(row_at(b, x, progress.batch) for x in arrays))
    one = b.constant(1, U64)
    words = philox.block_at(b, key, low, high)
    second = philox.ahead(b, low, high, one)
    words += philox.block_at(b, key, *second)
    flat = b.and_(b.not_(batch.normal), batch.uniform)
    for candidate in _candidates(b, batch, words):
        progress.take(batch, candidate)
    progress.next_batch()
    low, high = philox.ahead(b, *second, b.convert_to(flat, U64))
    return [key, low, high, *arrays, count, *progress.parts()]


def _stateless(op: Op) -> Value:
    """Take the whole result's shape, the seed, then the parameters: its last dimensions."""
    b, dims = op.b, op.sizes(0, "shape")
    parameters = b.together(*op.tensors(2))
    number = parameters[0].shape.size
    each = 0 if number == 0 else numbers_for_each(op, dims, parameters[0].shape.dims)
    total = dim_math.product((each, number))
    if total == 0:
        return b.zeros(Shape.array(op.result(), dims))
    state = philox.state_of_seed(b, op.tensor(1))
    made = _numbers(op, state, _flat(b, parameters, number), each, total)
    return arranged(b, made, each, dims)


def _flat(b: TensorBuilder, parameters: tuple[Instruction, ...], number: Size) -> _Parameters:
    mean, deviation, least, most = (b.reshape_to(x, (number,)) for x in parameters)
    return mean, deviation, least, most


def _in_node(op: Op) -> Value:
    """Take the shape, then parameters of each of its rows, or of all of it."""
    b, dims = op.b, op.sizes(0, "shape")
    total = dim_math.product(dims)
    if total == 0:
        return b.zeros(Shape.array(op.result(), dims))
    tensors = op.tensors(1)
    sizes = [x.shape.size for x in tensors]
    number, each = dims[0], dim_math.product(dims[1:])
    if sizes == [1, 1, 1, 1] and all(x.shape.rank == 0 for x in tensors[2:]):
        number, each = dim_math.ceil_div(total, _BATCH), _BATCH
    blocks = dim_math.floordiv(number * (2 * _MOST_TRIES) * (each + 3), 4)
    spread = tuple(b.spread(b.reshape_to(x, (x.shape.size,)), (number,)) for x in tensors)
    made = _numbers(op, state_in_node(op, blocks), _flat(b, spread, number), each, total)
    return b.reshape_to(made, dims)


RULES: dict[str, Rule] = {
    "ParameterizedTruncatedNormal": _in_node,
    "StatelessParameterizedTruncatedNormal": _stateless,
}
