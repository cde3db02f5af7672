# SPDX-License-Identifier: Apache-2.0
"""Numbers of the binomial distribution, TensorFlow's own: by the loop of `poisson`.

Source: TensorFlow's `kernels/random_binomial_op.cc`; Hormann, "The generation of binomial random
variates" (1993).
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.building.indexing import take
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.random_ops import philox
from ingot.frontends.tensorflow.lowering.random_ops.parameters import (
    arranged,
    generators,
    numbers_for_each,
    repeated,
)
from ingot.frontends.tensorflow.lowering.random_ops.philox import State
from ingot.frontends.tensorflow.lowering.random_ops.poisson import (
    FEW,
    Values,
    Waiting,
    affine,
    counted,
    hat,
    is_sure,
    log_ratio,
)
from ingot.frontends.tensorflow.lowering.random_ops.random import (
    GENERATOR_SKIP,
    generator_state,
    moved_on,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F64, S64, U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

_INVERSION_SKIP, _REJECTION_SKIP = 42, 256
"""Blocks between the generators of a binomial op's numbers."""

_BLOCKS_FOR_EACH = 50 * GENERATOR_SKIP
"""Blocks by which a binomial op moves a generator's state on, for each number and 3 more."""

_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _sum_of_gaps(
    b: TensorBuilder, parameters: Values, total: Instruction, draw: Instruction
) -> Instruction:
    gap = b.divide(b.log(draw), b.log_plus_one(b.negate(parameters[1])))
    return b.add(total, b.emit("ceil", gap))


def _passed(b: TensorBuilder, parameters: Values, total: Instruction) -> Instruction:
    return b.compare(total, parameters[0], direction="GT")


def _tail(b: TensorBuilder, k: Instruction) -> Instruction:
    """What Stirling's approximation of log(k!) lacks."""
    first = b.binary("add", k, 1)
    square = b.multiply(first, first)
    inner = b.binary("add", b.divide(b.like(-1 / 1260, k.shape), square), 1 / 360)
    series = b.binary("add", b.negate(b.divide(inner, square)), 1 / 12)
    held = b.maximum(b.binary("minimum", k, len(_TAILS) - 1.0), b.zeros(k.shape))
    exact = take(b, b.constant(_TAILS, F64), b.convert_to(held, S64))
    return b.select(b.compared("LE", k, len(_TAILS) - 1), exact, b.divide(series, first))


def _try_binomial(
    b: TensorBuilder, parameters: Values, u: Instruction, v: Instruction
) -> tuple[Instruction, Instruction]:
    count, p = parameters
    rest = b.binary("add", b.negate(p), 1)
    mean = b.multiply(count, p)
    deviation = b.sqrt(b.multiply(mean, rest))
    width = affine(b, deviation, 2.53, 1.15)
    slope = b.add(affine(b, width, 0.0248, -0.0873), b.binary("multiply", p, 0.01))
    limit = b.binary("add", b.divide(b.like(-4.2, p.shape), width), 0.92)
    odds = b.divide(p, rest)
    height = b.divide(b.like(5.1, p.shape), width)
    height = b.multiply(b.binary("add", height, 2.83), deviation)
    mode = b.floor(b.multiply(b.binary("add", count, 1), p))
    u, edge, value = hat(b, u, slope, width)
    k = b.floor(b.add(value, b.binary("add", mean, 0.5)))
    sure = is_sure(b, edge, v, limit)
    inside = b.and_(b.compared("GE", k, 0), b.compare(k, count, direction="LE"))
    ratio = log_ratio(b, b.multiply(v, height), slope, edge, width)
    bound = _binomial_bound(b, count, mode, k, odds)
    fits = b.compare(ratio, bound, direction="LE")
    return k, b.or_(sure, b.and_(inside, fits))


def _binomial_bound(
    b: TensorBuilder, count: Instruction, mode: Instruction, k: Instruction, odds: Instruction
) -> Instruction:
    """Return the logarithm of the probability of k over that of the mode, negated."""

    def more(x: Instruction, by: float) -> Instruction:
        return b.binary("add", x, by)

    above_mode, above_k = (more(b.subtract(count, x), 1) for x in (mode, k))
    first = b.log(b.divide(more(mode, 1), b.multiply(odds, above_mode)))
    second = b.log(b.divide(above_mode, above_k))
    third = b.log(b.divide(b.multiply(odds, above_k), more(k, 1)))
    total = b.multiply(more(mode, 0.5), first)
    total = b.add(total, b.multiply(more(count, 1), second))
    total = b.add(total, b.multiply(more(k, 0.5), third))
    for x in (mode, b.subtract(count, mode)):
        total = b.add(total, _tail(b, x))
    for x in (k, b.subtract(count, k)):
        total = b.subtract(total, _tail(b, x))
    return total


def _binomial_numbers(
    b: TensorBuilder, state: State, counts: Instruction, probs: Instruction
) -> Instruction:
    """Return f64 numbers; counts and probabilities are of one float type."""
    mirrored = b.compared("GT", probs, 0.5)
    p = b.select(mirrored, b.binary("add", b.negate(probs), 1), probs)
    few = b.compared("LT", b.multiply(counts, p), FEW)
    size = counts.shape.dims[0]
    halves = [
        b.select(few, near, far)
        for near, far in zip(
            generators(b, state, size, _INVERSION_SKIP),
            generators(b, state, size, _REJECTION_SKIP),
            strict=True,
        )
    ]
    wide, wide_p = b.convert_to(counts, F64), b.convert_to(p, F64)
    none = b.or_(b.compared("LE", counts, 0), b.compared("LE", probs, 0))
    all_ = b.and_(b.not_(none), b.compared("GE", probs, 1))
    unknown = b.or_(
        b.compare(counts, counts, direction="NE"), b.compare(probs, probs, direction="NE")
    )
    known = b.or_(b.or_(none, all_), unknown)
    low, high = halves
    waiting = Waiting(0, _sum_of_gaps, _passed)
    made = counted(b, (state.key, low, high), [wide, wide_p], few, known, waiting, _try_binomial)
    made = b.select(mirrored, b.subtract(wide, made), made)
    made = b.select(all_, wide, made)
    made = b.select(unknown, b.like(float("nan"), made.shape), made)
    return b.select(none, b.zeros(made.shape), made)


def _binomial(read: Callable[[Op, Size, Size], State], shape: int, first: int) -> Rule:
    """Take the whole result's shape, and counts and probabilities from operand `first` on.

    `read` gives the state that this many numbers of this many parameters start from.
    """

    def rule(op: Op) -> Value:
        b, dims = op.b, op.sizes(shape, "shape")
        counts, probs = b.together(op.tensor(first), op.tensor(first + 1))
        number = counts.shape.size
        each = 0 if number == 0 else numbers_for_each(op, dims, counts.shape.dims)
        state = read(op, each, number)
        if dim_math.product((each, number)) == 0:
            return b.zeros(Shape.array(op.result(), dims))
        rows = [repeated(b, x, each) for x in (counts, probs)]
        made = arranged(b, _binomial_numbers(b, state, *rows), each, dims)
        return b.convert_to(made, op.result())

    return rule


def _seeded(op: Op, each: Size, number: Size) -> State:
    return philox.state_of_seed(op.b, op.tensor(1))


def _of_generator(op: Op, each: Size, number: Size) -> State:
    blocks = dim_math.product((number, each + 3)) * _BLOCKS_FOR_EACH
    return generator_state(op, moved_on(op, op.b.scalar(blocks, U64)))


RULES: dict[str, Rule] = {
    "StatefulRandomBinomial": _binomial(_of_generator, 2, 3),
    "StatelessRandomBinomial": _binomial(_seeded, 0, 2),
}
