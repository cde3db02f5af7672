# SPDX-License-Identifier: Apache-2.0
"""Numbers of the Poisson distribution, TensorFlow's own; and the loop of the binomial one.

A loop draws one block of the generator, two uniform doubles, for each number that is not made yet.
Where few events are expected, waiting times are added up until they are too long, two a block;
elsewhere each block is one attempt of Hormann's transformed rejection. All of it is in f64.

Source: TensorFlow's `kernels/random_poisson_op.cc`; Hormann, "The transformed rejection method for
generating Poisson random variables" (1993).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.frontends.building.special_functions.special import log_gamma
from ingot.frontends.tensorflow.lowering.context.op import Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.random_ops import philox
from ingot.frontends.tensorflow.lowering.random_ops.parameters import (
    from_node,
    from_seed,
    generators,
)
from ingot.frontends.tensorflow.lowering.random_ops.philox import State
from ingot.hlo.dtype import F64, PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

FEW = 10.0
"""From this many expected events on, numbers are made by rejection."""

Values = Sequence[Instruction]
Attempt = Callable[[TensorBuilder, Values, Instruction, Instruction], Values]
"""Of parameters and two uniform numbers: a number, and whether it is accepted."""


class Waiting:
    """How waiting times are added up: `total` starts at `start`."""

    def __init__(
        self,
        start: float,
        add: Callable[[TensorBuilder, Values, Instruction, Instruction], Instruction],
        is_over: Callable[[TensorBuilder, Values, Instruction], Instruction],
    ) -> None:
        """`add`: parameters, total and uniform number to total; `is_over`: it is too long."""
        self.start = start
        self._add = add
        self._is_over = is_over

    def step(
        self, b: TensorBuilder, parameters: Values, draws: Values, total: Instruction
    ) -> tuple[Instruction, Instruction, Instruction]:
        """Return the total, how many times fit, and whether one did not."""
        over = b.zeros(Shape.array(PRED, total.shape.dims))
        fitting = b.zeros(total.shape)
        for draw in draws:
            total = self._add(b, parameters, total, draw)
            over = b.or_(over, self._is_over(b, parameters, total))
            fitting = b.add(fitting, b.convert_to(b.not_(over), F64))
        return total, fitting, over


def counted(
    b: TensorBuilder,
    state: tuple[Instruction, Instruction, Instruction],
    parameters: Values,
    few: Instruction,
    done: Instruction,
    waiting: Waiting,
    attempt: Attempt,
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
    b: TensorBuilder, parameters: Values, total: Instruction, draw: Instruction
) -> Instruction:
    return b.multiply(total, draw)


def _fell(b: TensorBuilder, parameters: Values, total: Instruction) -> Instruction:
    return b.compare(total, b.exponential(b.negate(parameters[0])), direction="LE")


def _poisson(b: TensorBuilder, state: State, rate: Instruction) -> Instruction:
    few = b.compared("LT", rate, FEW)
    start = (state.key, *generators(b, state, rate.shape.dims[0]))
    unknown = b.not_(b.is_finite(rate))
    made = counted(b, start, [rate], few, unknown, Waiting(1, _product, _fell), _try_poisson)
    return b.select(unknown, rate, made)


def affine(b: TensorBuilder, x: Instruction, factor: float, offset: float) -> Instruction:
    """Return x * factor + offset."""
    return b.binary("add", b.binary("multiply", x, factor), offset)


def _try_poisson(
    b: TensorBuilder, parameters: Values, u: Instruction, v: Instruction
) -> tuple[Instruction, Instruction]:
    (rate,) = parameters
    width = affine(b, b.sqrt(rate), 2.53, 0.931)
    slope = affine(b, width, 0.02483, -0.059)
    inverse = b.divide(b.like(1.1328, rate.shape), b.binary("add", width, -3.4))
    inverse = b.binary("add", inverse, 1.1239)
    limit = b.divide(b.like(-3.6224, rate.shape), b.binary("add", width, -2.0))
    u, edge, value = hat(b, u, slope, width)
    k = b.floor(b.binary("add", b.add(value, rate), 0.43))
    sure = is_sure(b, edge, v, b.binary("add", limit, 0.9277))
    thin = b.and_(b.compared("LT", edge, 0.013), b.compare(v, edge, direction="GT"))
    bad = b.or_(b.compared("LT", k, 0), thin)
    ratio = log_ratio(b, b.multiply(v, inverse), slope, edge, width)
    events = b.subtract(b.multiply(k, b.log(rate)), rate)
    bound = b.subtract(events, log_gamma(b, b.binary("add", k, 1)))
    fits = b.compare(ratio, bound, direction="LE")
    return k, b.or_(sure, b.and_(b.not_(bad), fits))


def hat(
    b: TensorBuilder, u: Instruction, slope: Instruction, width: Instruction
) -> tuple[Instruction, Instruction, Instruction]:
    """Return u around 0, how far it is from the edge, and what the hat's inverse gives."""
    u = b.binary("add", u, -0.5)
    edge = b.binary("add", b.negate(b.abs(u)), 0.5)
    steep = b.add(b.divide(b.binary("multiply", slope, 2), edge), width)
    return u, edge, b.multiply(steep, u)


def is_sure(b: TensorBuilder, edge: Instruction, v: Instruction, limit: Instruction) -> Instruction:
    """Whether an attempt is inside of the box that the distribution fills."""
    return b.and_(b.compared("GE", edge, 0.07), b.compare(v, limit, direction="LE"))


def log_ratio(
    b: TensorBuilder, v: Instruction, slope: Instruction, edge: Instruction, width: Instruction
) -> Instruction:
    """Return the logarithm of v over the height of the hat."""
    return b.log(b.divide(v, b.add(b.divide(slope, b.multiply(edge, edge)), width)))


RULES: dict[str, Rule] = {
    "RandomPoisson": from_node(_poisson),
    "RandomPoissonV2": from_node(_poisson),
    "StatelessRandomPoisson": from_seed(_poisson),
}
