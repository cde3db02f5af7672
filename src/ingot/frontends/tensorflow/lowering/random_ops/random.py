# SPDX-License-Identifier: Apache-2.0
"""Random ops with TensorFlow's own numbers.

Stateless ops take a seed or (key, counter, algorithm); a `tf.random.Generator` is a variable that
holds its state and is read and moved on here. The older ops that keep state inside the node
(`RandomUniform` with seed attributes) have theirs in a hidden variable, see `random_state`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Known, Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.random_ops import philox, threefry
from ingot.frontends.tensorflow.lowering.random_ops.philox import State
from ingot.frontends.tensorflow.lowering.sparse_ops.structure import element_at
from ingot.frontends.tensorflow.lowering.state_ops.variables import read, write
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S32, S64, U32, U64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion

PHILOX, THREEFRY, AUTO = 1, 2, 3
GENERATOR_SKIP = 256
"""A generator moves on by 256 blocks per number that a kernel could have asked for."""

_OTHER_RANDOM = (
    "use tf.random.Generator, keras.random with a SeedGenerator, or tf.random.stateless_*"
)

Maker = Callable[[TensorBuilder, State, Size, DType], Instruction]
_ShapedMaker = Callable[[TensorBuilder, State, Sizes, DType], Instruction]


def _algorithm_of(op: Op, number: int, *known: int) -> int:
    """Return the random algorithm that operand `number` says, one of those `known`."""
    algorithm = op.integer(number, "random algorithm")
    if algorithm not in (PHILOX, THREEFRY, AUTO):
        raise op.error(f"Unsupported algorithm id: {algorithm}")
    if algorithm not in known:
        raise op.error(
            f"{op.node.op} has no lowering for random algorithm {algorithm}",
            "use tf.random.Algorithm.PHILOX",
        )
    return algorithm


def _bits(b: TensorBuilder, value: Instruction, element: DType) -> Instruction:
    if value.shape.dtype is element:
        return value
    if value.shape.dtype.bits == element.bits:
        return b.emit("bitcast-convert", value, shape=value.shape.with_dtype(element))
    return b.convert_to(value, element)


def explicit_state(op: Op) -> State:
    """Read operands 1 and 2: key `u64[1]`, counter `u64[2]`; operand 3 is the algorithm, Philox."""
    _algorithm_of(op, 3, PHILOX, AUTO)
    key, counter = op.tensor(1), op.tensor(2)
    return State(element_at(op.b, key, 0), *(element_at(op.b, counter, n) for n in range(2)))


def _shaped(op: Op, state: State, maker: Maker, shape: int = 0) -> Value:
    dims = op.sizes(shape, "shape")
    element = op.result()
    count = dim_math.product(dims)
    if count == 0:
        return op.b.zeros(Shape.array(element, dims))
    return op.b.reshape_to(maker(op.b, state, count, element), dims)


def _from_seed(maker: Maker) -> Rule:
    return lambda op: _shaped(op, philox.state_of_seed(op.b, op.tensor(1)), maker)


def _from_state(maker: Maker, by_threefry: _ShapedMaker) -> Rule:
    """Take shape, key, counter, algorithm: each algorithm has a maker."""

    def rule(op: Op) -> Value:
        if _algorithm_of(op, 3, PHILOX, THREEFRY, AUTO) != THREEFRY:
            return _shaped(op, explicit_state(op), maker)
        return _by_threefry(op, by_threefry)

    return rule


def _by_threefry(op: Op, maker: _ShapedMaker) -> Value:
    b, dims, element = op.b, op.sizes(0, "shape"), op.result()
    if dim_math.product(dims) == 0:
        return b.zeros(Shape.array(element, dims))
    key, low = (element_at(b, op.tensor(number), 0) for number in (1, 2))
    return maker(b, State(key, low, b.scalar(0, U64)), dims, element)


def _raw_bits(b: TensorBuilder, state: State, count: Size, element: DType) -> Instruction:
    made = philox.bits64 if element.bits == 64 else philox.bits32
    return _bits(b, made(b, state, count), element)


def _threefry_bits(b: TensorBuilder, state: State, dims: Sizes, element: DType) -> Instruction:
    return _bits(b, threefry.bits(b, state, dims, _unsigned(element)), element)


def _unsigned(element: DType) -> DType:
    return U64 if element.bits == 64 else U32


def _between(
    b: TensorBuilder, bits: Instruction, low: Instruction, high: Instruction, element: DType
) -> Instruction:
    """Low + bits % (high - low), in the unsigned type of the same width."""
    is_empty = b.compared("EQ", b.size(bits.shape.size), 0)
    fits = b.or_(b.compare(low, high, direction="LT"), is_empty)
    emit_assertion(b, fits, "Need minval < maxval")
    first, last = (_bits(b, end, bits.shape.dtype) for end in (low, high))
    offset = b.remainder(bits, b.spread(b.subtract(last, first), bits.shape.dims))
    return _bits(b, b.binary("add", offset, first), element)


def _integers(op: Op, state: State, low: Instruction, high: Instruction, shape: int = 0) -> Value:
    def maker(b: TensorBuilder, state: State, count: Size, element: DType) -> Instruction:
        return _between(b, _raw_bits(b, state, count, _unsigned(element)), low, high, element)

    return _shaped(op, state, maker, shape)


def _integers_from_seed(op: Op) -> Value:
    return _integers(op, philox.state_of_seed(op.b, op.tensor(1)), op.tensor(2), op.tensor(3))


def _integers_from_state(op: Op) -> Value:
    low, high = op.tensor(4), op.tensor(5)
    if _algorithm_of(op, 3, PHILOX, THREEFRY, AUTO) != THREEFRY:
        return _integers(op, explicit_state(op), low, high)

    def maker(b: TensorBuilder, state: State, dims: Sizes, element: DType) -> Instruction:
        return _between(b, threefry.bits(b, state, dims, _unsigned(element)), low, high, element)

    return _by_threefry(op, maker)


def _key_counter(op: Op) -> tuple[Value, ...]:
    state = philox.state_of_seed(op.b, op.tensor(0))
    halves = [op.b.reshape_to(part, (1,)) for part in (state.low, state.high)]
    return op.b.reshape_to(state.key, (1,)), op.b.concatenated(halves, 0)


def _key_counter_algorithm(op: Op) -> tuple[Value, ...]:
    return (*_key_counter(op), _algorithm(op))


def _algorithm(op: Op) -> Value:
    return Known.of(PHILOX, S32)


def moved_on(op: Op, blocks: Instruction) -> Instruction:
    """Move the state of operand 0, a generator, on by `blocks` (`u64[]`); return the old one."""
    b = op.b
    _algorithm_of(op, 1, PHILOX, AUTO)
    old = _state_of(op, 3)
    low, high = (_bits(b, element_at(b, old, n), U64) for n in range(2))
    parts = philox.ahead(b, low, high, blocks)
    new = [b.reshape_to(_bits(b, part, S64), (1,)) for part in parts]
    write(op, b.concatenated([*new, b.sliced(old, 0, 2, 3)], 0))
    return old


def _state_of(op: Op, words: int) -> Instruction:
    """Return the state of operand 0, a generator that holds at least this many words."""
    old = read(op)
    if old.shape.rank != 1:
        raise op.mistake(
            "RNG state must have one and only one dimension, not "
            f"[{','.join(map(str, old.shape.dims))}]"
        )
    (size,) = old.shape.dims
    if isinstance(size, int) and size < words:
        raise op.mistake(f"The size of the state must be at least {words}; got {size}")
    return old


def _moved_on_by_threefry(op: Op, blocks: Instruction) -> Instruction:
    """Move a generator of counter and key on; return its old state, with a zero after it."""
    b = op.b
    old = _state_of(op, 2)
    counter = b.add(_bits(b, element_at(b, old, 0), U64), blocks)
    key = b.sliced(old, 0, 1, 2)
    write(op, b.concatenated([b.reshape_to(_bits(b, counter, S64), (1,)), key], 0))
    zero = b.zeros(Shape.array(S64, (1,)))
    return b.concatenated([b.sliced(old, 0, 0, 2), zero], 0)


def _read_and_skip(op: Op) -> Value:
    """The state before, `s64[3]`."""
    if _algorithm_of(op, 1, PHILOX, THREEFRY, AUTO) == THREEFRY:
        return _moved_on_by_threefry(op, _skipped(op))
    return op.b.sliced(moved_on(op, _skipped(op)), 0, 0, 3)


def _skip(op: Op) -> tuple[Value, ...]:
    _read_and_skip(op)
    return ()


def _skipped(op: Op) -> Instruction:
    """Return the number of blocks by which operand 2 advances a generator, `u64[]`."""
    delta = _bits(op.b, op.b.reshape_to(op.tensor(2), ()), U64)
    return op.b.binary("multiply", delta, GENERATOR_SKIP)


def _from_generator(maker: Maker) -> Rule:
    """Draw as the older generator ops do: state variable, algorithm, shape."""

    def rule(op: Op) -> Value:
        b = op.b
        dims = op.sizes(2, "shape")
        element = op.result()
        count = dim_math.product(dims)
        old = moved_on(op, b.scalar(count * GENERATOR_SKIP, U64))
        return b.reshape_to(maker(b, generator_state(op, old), count, element), dims)

    return rule


def state_in_node(op: Op, blocks: Size) -> State:
    """Return the state of this very node, and move it on by what its kernel reserves."""
    b, program = op.b, op.frame.program
    variable = program.random_state
    if variable is None or variable not in op.frame.state:
        raise op.error("the node keeps a random state that is not known here", _OTHER_RANDOM)
    index = program.random_index(op.scope.function.name, op.node.name)
    old = op.frame.tensor(op.frame.state[variable])
    offset = element_at(b, old, index)
    moved = b.add(offset, b.scalar(blocks, S64))
    (nodes,) = variable.dims
    parts = [b.sliced(old, 0, 0, index)] if index else []
    parts.append(b.reshape_to(moved, (1,)))
    if index + 1 != nodes:
        parts.append(b.sliced(old, 0, index + 1, nodes))
    op.frame.state[variable] = b.concatenated(parts, 0)
    return replace(seeded_state(op), low=_bits(b, offset, U64))


def seeded_state(op: Op) -> State:
    """Return the state that the seeds of a node give, before anything is drawn from it."""
    seeds = [int(op.attribute(name, 0)) for name in ("seed", "seed2")]
    if seeds == [0, 0]:
        # Both zero: the program asks for a random seed.
        seeds = [secrets.randbits(64) for _ in seeds]
    key, high = (op.b.scalar(np.uint64(seed % 2**64), U64) for seed in seeds)
    return State(key, op.b.scalar(0, U64), high)


def _elements_state(op: Op) -> State:
    return state_in_node(op, dim_math.product(op.sizes(0, "shape")) * GENERATOR_SKIP)


def _from_node(maker: Maker) -> Rule:
    return lambda op: _shaped(op, _elements_state(op), maker)


def _integers_from_node(op: Op) -> Value:
    return _integers(op, _elements_state(op), op.tensor(1), op.tensor(2))


def _integers_from_generator(op: Op) -> Value:
    """Operands: state variable, algorithm, shape, least, end."""
    count = dim_math.product(op.sizes(2, "shape"))
    old = moved_on(op, op.b.scalar(count * GENERATOR_SKIP, U64))
    state = generator_state(op, old)
    return _integers(op, state, op.tensor(3), op.tensor(4), 2)


def generator_state(op: Op, old: Instruction) -> State:
    """Return the state that a generator's variable held."""
    low, high, key = (_bits(op.b, element_at(op.b, old, n), U64) for n in range(3))
    return State(key, low, high)


def _cast_at_random(op: Op) -> Value:
    """Round stochastically: up with the probability of the fraction; clamp to the type.

    The draws differ from those of TensorFlow's kernel, which depend on the CPU's vectors.
    """
    b, x = op.b, op.tensor(0)
    element, limits = x.shape.dtype, np.iinfo(op.result().numpy)
    if x.shape.size == 0:
        return b.convert_to(x, op.result())
    chance = philox.uniform(b, explicit_state(op), x.shape.size, element)
    chance = b.reshape_to(chance, x.shape.dims)
    up = b.floor(b.subtract(b.binary("add", x, 1), chance))
    rounded = b.select(b.compared("LT", x, 0), b.floor(b.add(x, chance)), up)
    whole = b.compare(b.floor(x), x, direction="EQ")
    made = b.convert_to(b.select(whole, x, rounded), op.result())
    for direction, limit in (("GE", limits.max), ("LE", limits.min)):
        # The limits of s32 are infinite in f16, and only infinity is beyond them.
        with np.errstate(over="ignore"):
            beyond = b.compare(x, b.like(limit, x.shape), direction=direction)
        made = b.select(beyond, b.like(limit, made.shape), made)
    return b.select(b.compare(x, x, direction="NE"), b.zeros(made.shape), made)


RULES: dict[str, Rule] = {
    "RandomStandardNormal": _from_node(philox.normal),
    "RandomUniform": _from_node(philox.uniform),
    "RandomUniformInt": _integers_from_node,
    "RngReadAndSkip": _read_and_skip,
    "RngSkip": _skip,
    "StatefulStandardNormalV2": _from_generator(philox.normal),
    "StatefulTruncatedNormal": _from_generator(philox.truncated_normal),
    "StatefulUniformInt": _integers_from_generator,
    "StatefulUniform": _from_generator(philox.uniform),
    "StatefulUniformFullInt": _from_generator(_raw_bits),
    "StatelessRandomGetAlg": _algorithm,
    "StatelessRandomGetKeyCounter": _key_counter,
    "StatelessRandomGetKeyCounterAlg": _key_counter_algorithm,
    "StatelessRandomNormal": _from_seed(philox.normal),
    "StatelessRandomNormalV2": _from_state(philox.normal, threefry.normal),
    "StatelessRandomUniform": _from_seed(philox.uniform),
    "StatelessRandomUniformFullInt": _from_seed(_raw_bits),
    "StatelessRandomUniformFullIntV2": _from_state(_raw_bits, _threefry_bits),
    "StatelessRandomUniformInt": _integers_from_seed,
    "StatelessRandomUniformIntV2": _integers_from_state,
    "StatelessRandomUniformV2": _from_state(philox.uniform, threefry.uniform),
    "StatelessTruncatedNormal": _from_seed(philox.truncated_normal),
    "StatelessTruncatedNormalV2": _from_state(philox.truncated_normal, threefry.truncated_normal),
    "StochasticCastToInt": _cast_at_random,
    "TruncatedNormal": _from_node(philox.truncated_normal),
}
