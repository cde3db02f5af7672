# SPDX-License-Identifier: Apache-2.0
"""Numbers of the gamma distribution, TensorFlow's own.

Each number has 256 blocks of the generator for itself, so all are drawn at once: a loop makes
attempts, from a normal and a uniform number each, until none lacks one. Both come in pairs, and
the second of a pair is used first, as in the C++ code. All of it is in f64.

Source: TensorFlow's `kernels/random_op.cc`, `stateless_random_gamma_op.cc`; Marsaglia and Tsang,
"A simple method for generating gamma variables" (2000).
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.tensorflow.lowering.context.op import Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.random_ops import philox
from ingot.frontends.tensorflow.lowering.random_ops.parameters import (
    from_node,
    from_seed,
    from_state,
    generators,
)
from ingot.frontends.tensorflow.lowering.random_ops.philox import State
from ingot.hlo.dtype import PRED, U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.records import mutable

_SQUEEZE = 0.0331


@mutable
class _Pair:
    """Two numbers of which the second one is used first; `full` while there are still both."""

    first: Instruction
    second: Instruction
    left: Instruction

    def parts(self) -> list[Instruction]:
        """The values that a loop carries."""
        return [self.first, self.second, self.left]


@mutable
class _Draws:
    """The generators of all numbers: which block is next, and what is left of pairs."""

    b: TensorBuilder
    key: Instruction
    low: Instruction
    high: Instruction
    normals: _Pair
    uniforms: _Pair

    def normal(self, wanted: Instruction) -> Instruction:
        """Return a normal number where `wanted`."""
        return self._drawn(self.normals, wanted, self._normal_pair)

    def uniform(self, wanted: Instruction) -> Instruction:
        """Return a uniform number where `wanted`."""
        return self._drawn(self.uniforms, wanted, lambda pair: pair)

    def _normal_pair(
        self, pair: tuple[Instruction, Instruction]
    ) -> tuple[Instruction, Instruction]:
        return philox.box_muller(self.b, *pair)

    def _drawn(
        self,
        pair: _Pair,
        wanted: Instruction,
        make: Callable[[tuple[Instruction, Instruction]], tuple[Instruction, Instruction]],
    ) -> Instruction:
        b = self.b
        refill = b.and_(wanted, b.not_(pair.left))
        fresh = make(philox.unit_pair(b, self.key, self.low, self.high))
        pair.first = b.select(refill, fresh[0], pair.first)
        pair.second = b.select(refill, fresh[1], pair.second)
        self.low, self.high = philox.ahead(b, self.low, self.high, b.convert_to(refill, U64))
        # After a refill the second number is taken and the first one is left.
        taken = b.select(refill, pair.second, pair.first)
        pair.left = b.select(wanted, refill, pair.left)
        return taken


def _gamma(b: TensorBuilder, state: State, alpha: Instruction) -> Instruction:
    """Return a number for each alpha, f64, in the order in which generators are numbered."""
    dims = alpha.shape.dims
    low, high = generators(b, state, dims[0])
    zero, no = b.zeros(alpha.shape), b.zeros(Shape.array(PRED, dims))
    small = b.compared("LT", alpha, 1)
    shift = b.select(small, b.like(2.0 / 3, alpha.shape), b.like(-1.0 / 3, alpha.shape))
    # alpha 1 is an exponential number, made outside of the loop of one uniform number.
    simple = b.compared("EQ", alpha, 1)
    start = [state.key, alpha, b.add(alpha, shift), low, high]
    start += [zero, zero, no, zero, zero, no, zero, simple]
    *_, made, _ = b.loop(start, _lacks, _attempt)
    _, one = philox.unit_pair(b, state.key, low, high)
    exponential = b.negate(b.log_plus_one(b.negate(one)))
    return b.select(simple, exponential, made)


def _lacks(b: TensorBuilder, state: list[Instruction]) -> Instruction:
    return b.reduced("or", b.not_(state[-1]), (0,))


def _attempt(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
    """One attempt for each number that is not made yet."""
    key, alpha, d, low, high, *pairs, made, done = state
    draws = _Draws(b, key, low, high, _Pair(*pairs[:3]), _Pair(*pairs[3:]))
    open_ = b.not_(done)
    x = draws.normal(open_)
    c = b.divide(b.like(1.0 / 3, d.shape), b.sqrt(d))
    v = b.binary("add", b.multiply(c, x), 1)
    tried = b.and_(open_, b.compared("GT", v, 0))
    v = b.multiply(b.multiply(v, v), v)
    u = draws.uniform(tried)
    square = b.multiply(x, x)
    bound = b.binary("multiply", b.multiply(square, square), -_SQUEEZE)
    squeezed = b.compare(u, b.binary("add", bound, 1), direction="LT")
    gap = b.add(b.binary("add", b.negate(v), 1), b.log(v))
    limit = b.add(b.binary("multiply", square, 0.5), b.multiply(d, gap))
    accepted = b.compare(b.log(u), limit, direction="LT")
    fits = b.and_(tried, b.or_(squeezed, accepted))
    small = b.compared("LT", alpha, 1)
    boost = draws.uniform(b.and_(fits, small))
    power = b.emit("power", boost, b.divide(b.like(1.0, alpha.shape), alpha))
    result = b.multiply(d, v)
    result = b.select(small, b.multiply(result, power), result)
    made = b.select(fits, result, made)
    done = b.or_(done, fits)
    return [
        key, alpha, d, draws.low, draws.high, *draws.normals.parts(), *draws.uniforms.parts(),
        made, done,
    ]  # fmt: skip


RULES: dict[str, Rule] = {
    "RandomGamma": from_node(_gamma),
    "StatelessRandomGammaV2": from_seed(_gamma),
    "StatelessRandomGammaV3": from_state(_gamma),
}
