# SPDX-License-Identifier: Apache-2.0
"""Random numbers whose distribution has parameters: as many numbers for each of them as asked for.

Number n of a kernel's own order (all numbers of the first parameter, then of the next) has 256
blocks of the generator for itself, so all are drawn at once. Results have the parameters as their
last dimensions. Source: TensorFlow's `kernels/random_op.cc`, `random_poisson_op.cc`,
`random_binomial_op.cc`, `stateless_random_gamma_op.cc`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.random_ops import philox
from ingot.frontends.tensorflow.lowering.random_ops.philox import State
from ingot.frontends.tensorflow.lowering.random_ops.random import (
    GENERATOR_SKIP,
    explicit_state,
    state_in_node,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F64, U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

Maker = Callable[[TensorBuilder, State, Instruction], Instruction]
"""Makes a number for each parameter, `f64[n]` both, in the kernel's order."""


def generators(
    b: TensorBuilder, state: State, count: Size, skip: int = GENERATOR_SKIP
) -> tuple[Instruction, Instruction]:
    """Return where the generators of `count` numbers start, `skip` blocks apart: `u64[count]`."""
    index = b.binary("multiply", b.iota_of(U64, (count,), 0), skip)
    return philox.ahead(b, state.low, state.high, index)


def repeated(b: TensorBuilder, parameters: Instruction, each: Size) -> Instruction:
    """Return parameters in the kernel's order, each repeated for all of its numbers."""
    flat = b.reshape_to(parameters, (parameters.shape.size,))
    count = flat.shape.dims[0]
    total = dim_math.product((count, each))
    return b.reshape_to(b.spread(flat, (count, each), (0,)), (total,))


def arranged(b: TensorBuilder, made: Instruction, each: Size, dims: Sizes) -> Instruction:
    """Return numbers in the kernel's order as a result of `dims`."""
    count = dim_math.exact_quotient(made.shape.size, each)
    assert count is not None
    return b.reshape_to(b.transposed(b.reshape_to(made, (count, each)), (1, 0)), dims)


def numbers_for_each(op: Op, dims: Sizes, parameters: Sizes) -> Size:
    """Return how many numbers of a result of `dims` each of the parameters has.

    Args:
        op: the op, for the error.
        dims: the sizes of the result.
        parameters: the sizes of the parameters, none of them 0: the last ones of the result.
    """
    last = dims[len(dims) - len(parameters) :]
    pairs = zip(last, parameters, strict=False)
    differ = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
    each = dim_math.exact_quotient(dim_math.product(dims), dim_math.product(parameters))
    if len(parameters) > len(dims) or differ or each is None:
        raise op.mistake(
            f"Shape passed in must end with broadcasted shape: {list(dims)}, {list(parameters)}"
        )
    return each


def _drawn(op: Op, maker: Maker, state: State, number: int, each: Size, dims: Sizes) -> Value:
    b = op.b
    rows = repeated(b, b.convert_to(op.tensor(number), F64), each)
    if rows.shape.size == 0:
        return b.zeros(Shape.array(op.result(), dims))
    made = maker(b, state, rows)
    if not op.result().is_float:
        # No integer stands for infinity or NaN.
        made = b.select(b.is_finite(made), made, b.zeros(made.shape))
    return b.convert_to(arranged(b, made, each, dims), op.result())


def from_node(maker: Maker) -> Rule:
    """Take the shape of the numbers of one parameter, then the parameters."""

    def rule(op: Op) -> Value:
        shape, parameters = op.sizes(0, "shape"), op.dims(1)
        each = dim_math.product(shape)
        drawn = dim_math.product((each, *parameters))
        state = state_in_node(op, drawn * GENERATOR_SKIP)
        return _drawn(op, maker, state, 1, each, (*shape, *parameters))

    return rule


def _stateless(maker: Maker, number: int, read: Callable[[Op], State]) -> Rule:
    """Take the whole result's shape, the state, then the parameters as operand `number`."""

    def rule(op: Op) -> Value:
        dims, parameters = op.sizes(0, "shape"), op.dims(number)
        if dim_math.product(parameters) == 0:
            return op.b.zeros(Shape.array(op.result(), dims))
        return _drawn(op, maker, read(op), number, numbers_for_each(op, dims, parameters), dims)

    return rule


def from_seed(maker: Maker) -> Rule:
    """Take shape, seed, parameters."""
    return _stateless(maker, 2, lambda op: philox.state_of_seed(op.b, op.tensor(1)))


def from_state(maker: Maker) -> Rule:
    """Take shape, key, counter, algorithm, parameters."""
    return _stateless(maker, 4, explicit_state)
