"""Numbers of the Poisson and binomial distributions, TensorFlow's own.

A loop draws one block of the generator, two uniform doubles, for each number that is not made yet.
Where few events are expected, waiting times are added up until they are too long, two a block;
elsewhere each block is one attempt of Hormann's transformed rejection. All of it is in f64.

Source: TensorFlow's `kernels/random_poisson_op.cc`, `random_binomial_op.cc`; Hormann, "The
generation of binomial random variates" and "The transformed rejection method for generating
Poisson random variables" (1993).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.frontends.tensorflow.lowering import philox
from ingot.frontends.tensorflow.lowering.gather import take
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.philox import State
from ingot.frontends.tensorflow.lowering.random import (
    GENERATOR_SKIP,
    generator_state,
    moved_on,
)
from ingot.frontends.tensorflow.lowering.random_parameters import (
    arranged,
    from_node,
    from_seed,
    generators,
    numbers_for_each,
    repeated,
)
from ingot.frontends.tensorflow.lowering.special import log_gamma
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Size, Value
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F64, PRED, S64, U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

_FEW = 10.0
"""From so many expected events on, numbers are made by rejection."""

_INVERSION_SKIP, _REJECTION_SKIP = 42, 256
"""Blocks between the generators of a binomial op's numbers."""

_BLOCKS_FOR_EACH = 50 * GENERATOR_SKIP
"""Blocks by which a binomial op moves a generator's state on, for each number and 3 more."""

_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip

_Values = Sequence[Instruction]
_Attempt = Callable[[TensorBuilder, _Values, Instruction, Instruction], _Values]
"""Of parameters and two uniform numbers: a number, and whether it is accepted."""


class _Waiting:
    """How waiting times are added up: `total` starts at `start`."""

    def __init__(
        self,
        start: float,
        add: Callable[[TensorBuilder, _Values, Instruction, Instruction], Instruction],
        is_over: Callable[[TensorBuilder, _Values, Instruction], Instruction],
    ) -> None:
        """`add`: parameters, total and uniform number to total; `is_over`: it is too long."""
        self.start = start
        self._add = add
        self._is_over = is_over

    def step(
        self, b: TensorBuilder, parameters: _Values, draws: _Values, total: Instruction
    ) -> tuple[Instruction, Instruction, Instruction]:
        """Return the total, how many times fit, and whether one did not."""
        over = b.zeros(Shape.array(PRED, total.shape.dims))
        fitting = b.zeros(total.shape)
        for draw in draws:
            total = self._add(b, parameters, total, draw)
            over = b.or_(over, self._is_over(b, parameters, total))
            fitting = b.add(fitting, b.convert_to(b.not_(over), F64))
        return total, fitting, over


def _loop(
    b: TensorBuilder,
    state: tuple[Instruction, Instruction, Instruction],
    parameters: _Values,
    few: Instruction,
    done: Instruction,
    waiting: _Waiting,
    attempt: _Attempt,
) -> Instruction:
    """Return a number for each of the parameters that is not `done`; `few`: by waiting times."""
    count = len(parameters)

    def lacks(b: TensorBuilder, values: list[Instruction]) -> Instruction:
        return b.reduced("or", b.not_(values[-1]), (0,))

    def step(b: TensorBuilder, values: list[Instruction]) -> list[Instruction]:
        key, low, high, few, total, made, done = values[count:]
        second, first = philox.unit_pair(b, key, low, high)
        given = values[:count]
        total, fitting, over = waiting.step(b, given, (first, second), total)
        number, accepted = attempt(b, given, first, second)
        number = b.select(few, b.add(made, fitting), number)
        made = b.select(done, made, number)
        done = b.or_(done, b.select(few, over, accepted))
        low, high = philox.ahead(b, low, high, b.like(1, low.shape))
        return [*given, key, low, high, few, total, made, done]

    zero = b.zeros(Shape.array(F64, few.shape.dims))
    start = [*parameters, *state, few, b.like(waiting.start, zero.shape), zero, done]
    return b.loop(start, lacks, step)[-2]


def _product(
    b: TensorBuilder, parameters: _Values, total: Instruction, draw: Instruction
) -> Instruction:
    return b.multiply(total, draw)


def _fell(b: TensorBuilder, parameters: _Values, total: Instruction) -> Instruction:
    return b.compare(total, b.exponential(b.negate(parameters[0])), direction="LE")


def _poisson(b: TensorBuilder, state: State, rate: Instruction) -> Instruction:
    few = b.compared("LT", rate, _FEW)
    start = (state.key, *generators(b, state, rate.shape.dims[0]))
    unknown = b.not_(b.is_finite(rate))
    made = _loop(b, start, [rate], few, unknown, _Waiting(1, _product, _fell), _try_poisson)
    return b.select(unknown, rate, made)


def _affine(b: TensorBuilder, x: Instruction, factor: float, offset: float) -> Instruction:
    return b.binary("add", b.binary("multiply", x, factor), offset)


def _try_poisson(
    b: TensorBuilder, parameters: _Values, u: Instruction, v: Instruction
) -> tuple[Instruction, Instruction]:
    (rate,) = parameters
    width = _affine(b, b.sqrt(rate), 2.53, 0.931)
    slope = _affine(b, width, 0.02483, -0.059)
    inverse = b.divide(b.like(1.1328, rate.shape), b.binary("add", width, -3.4))
    inverse = b.binary("add", inverse, 1.1239)
    limit = b.divide(b.like(-3.6224, rate.shape), b.binary("add", width, -2.0))
    u, edge, value = _hat(b, u, slope, width)
    k = b.floor(b.binary("add", b.add(value, rate), 0.43))
    sure = _sure(b, edge, v, b.binary("add", limit, 0.9277))
    thin = b.and_(b.compared("LT", edge, 0.013), b.compare(v, edge, direction="GT"))
    bad = b.or_(b.compared("LT", k, 0), thin)
    ratio = _ratio(b, b.multiply(v, inverse), slope, edge, width)
    events = b.subtract(b.multiply(k, b.log(rate)), rate)
    bound = b.subtract(events, log_gamma(b, b.binary("add", k, 1)))
    fits = b.compare(ratio, bound, direction="LE")
    return k, b.or_(sure, b.and_(b.not_(bad), fits))


def _hat(
    b: TensorBuilder, u: Instruction, slope: Instruction, width: Instruction
) -> tuple[Instruction, Instruction, Instruction]:
    """Return u around 0, how far it is from the edge, and what the hat's inverse gives."""
    u = b.binary("add", u, -0.5)
    edge = b.binary("add", b.negate(b.abs(u)), 0.5)
    steep = b.add(b.divide(b.binary("multiply", slope, 2), edge), width)
    return u, edge, b.multiply(steep, u)


def _sure(b: TensorBuilder, edge: Instruction, v: Instruction, limit: Instruction) -> Instruction:
    return b.and_(b.compared("GE", edge, 0.07), b.compare(v, limit, direction="LE"))


def _ratio(
    b: TensorBuilder, v: Instruction, slope: Instruction, edge: Instruction, width: Instruction
) -> Instruction:
    return b.log(b.divide(v, b.add(b.divide(slope, b.multiply(edge, edge)), width)))


def _sum_of_gaps(
    b: TensorBuilder, parameters: _Values, total: Instruction, draw: Instruction
) -> Instruction:
    gap = b.divide(b.log(draw), b.log_plus_one(b.negate(parameters[1])))
    return b.add(total, b.emit("ceil", gap))


def _passed(b: TensorBuilder, parameters: _Values, total: Instruction) -> Instruction:
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
    b: TensorBuilder, parameters: _Values, u: Instruction, v: Instruction
) -> tuple[Instruction, Instruction]:
    count, p = parameters
    rest = b.binary("add", b.negate(p), 1)
    mean = b.multiply(count, p)
    deviation = b.sqrt(b.multiply(mean, rest))
    width = _affine(b, deviation, 2.53, 1.15)
    slope = b.add(_affine(b, width, 0.0248, -0.0873), b.binary("multiply", p, 0.01))
    limit = b.binary("add", b.divide(b.like(-4.2, p.shape), width), 0.92)
    odds = b.divide(p, rest)
    height = b.divide(b.like(5.1, p.shape), width)
    height = b.multiply(b.binary("add", height, 2.83), deviation)
    mode = b.floor(b.multiply(b.binary("add", count, 1), p))
    u, edge, value = _hat(b, u, slope, width)
    k = b.floor(b.add(value, b.binary("add", mean, 0.5)))
    sure = _sure(b, edge, v, limit)
    inside = b.and_(b.compared("GE", k, 0), b.compare(k, count, direction="LE"))
    ratio = _ratio(b, b.multiply(v, height), slope, edge, width)
    bound = _binomial_bound(b, count, mode, k, odds)
    fits = b.compare(ratio, bound, direction="LE")
    return k, b.or_(sure, b.and_(inside, fits))


def _binomial_bound(
    b: TensorBuilder, count: Instruction, mode: Instruction, k: Instruction, odds: Instruction
) -> Instruction:
    """Return the logarithm of how much likelier the mode is than k, turned round."""

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
    few = b.compared("LT", b.multiply(counts, p), _FEW)
    size = counts.shape.dims[0]
    places = [
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
    low, high = places
    waiting = _Waiting(0, _sum_of_gaps, _passed)
    made = _loop(b, (state.key, low, high), [wide, wide_p], few, known, waiting, _try_binomial)
    made = b.select(mirrored, b.subtract(wide, made), made)
    made = b.select(all_, wide, made)
    made = b.select(unknown, b.like(float("nan"), made.shape), made)
    return b.select(none, b.zeros(made.shape), made)


def _binomial(read: Callable[[Op, Size, Size], State], shape: int, first: int) -> Rule:
    """Take the whole result's shape, and counts and probabilities from operand `first` on.

    `read` gives the state that so many numbers of so many parameters start from.
    """

    def rule(op: Op) -> Value:
        b, dims = op.b, op.sizes(shape, "shape")
        counts, probs = b.together(op.tensor(first), op.tensor(first + 1))
        number = counts.shape.size
        each = 0 if number == 0 else numbers_for_each(op, dims, number)
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
    "RandomPoisson": from_node(_poisson),
    "RandomPoissonV2": from_node(_poisson),
    "StatefulRandomBinomial": _binomial(_of_generator, 2, 3),
    "StatelessRandomBinomial": _binomial(_seeded, 0, 2),
    "StatelessRandomPoisson": from_seed(_poisson),
}
