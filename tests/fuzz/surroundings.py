# SPDX-License-Identifier: Apache-2.0
"""Puts parts of programs into random surroundings that do not change their numbers.

An input arrives disguised: reversed, transposed, embedded in a larger array, in two halves, as a
constant, through a loop, a branch or a gather; the program undoes that first. Results are moved
around after the part. So each op meets prologues, epilogues, neighbours and control flow that
fusion, layout and kernels have to get right, and what it must give is known all the same.

Example:
    case = surrounded([Part((np.ones(3),), lambda b, p: b.negate(p[0]))], random.Random(7))
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.fuzz.program_case import EXACT, Array, ProgramCase, some_level

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape

LARGEST = 1 << 14
"""Elements of an array that is moved once more."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a program.

    Attributes:
        inputs: one array for each parameter.
        build: adds the piece, given its parameters; returns its result.
        compare: how its results are compared (`ProgramCase`).
    """

    inputs: Sequence[Array]
    build: Callable[[Builder, Sequence[Instruction]], Instruction]
    compare: str = EXACT


def surrounded(parts: Sequence[Part], choose: random.Random) -> ProgramCase:
    """Return one program of all parts, each in random surroundings."""
    program = _Program(choose)
    results: list[Instruction] = []
    compare: list[str] = []
    for part in parts:
        given = [program.disguised(np.asarray(value)) for value in part.inputs]
        for leaf in _leaves(program.builder, part.build(program.builder, given)):
            results.append(program.moved(leaf, exact="largest" not in part.compare))
            compare.append(part.compare)
    root = program.builder.tuple(*results)
    module = Module.of("fuzzed", program.builder.build(root))
    return ProgramCase(module, program.inputs, tuple(compare), level=some_level(choose))


def _leaves(builder: Builder, value: Instruction) -> list[Instruction]:
    if not value.shape.is_tuple:
        return [value]
    count = len(value.shape.elements)
    inner = [builder.get_tuple_element(value, index=number) for number in range(count)]
    return [leaf for item in inner for leaf in _leaves(builder, item)]


@dataclass(slots=True)
class _Program:
    choose: random.Random
    builder: Builder = field(default_factory=lambda: Builder("main"))
    inputs: list[Array] = field(default_factory=list[Array])

    # ---- inputs

    def disguised(self, value: Array) -> Instruction:
        """Return an instruction that gives `value`, by way of other arrays."""
        ways = [
            self._reversed, self._transposed, self._embedded, self._halves, self._regrouped,
            self._chosen, self._looped, self._rows, self._dynamic, self._behind_barrier,
        ]  # fmt: skip
        if self.choose.random() < 0.5 or value.size > LARGEST:
            return self._plain(value)
        return self.choose.choice(ways)(value)

    def _again(self, value: Array) -> Instruction:
        return self.disguised(value) if self.choose.random() < 0.4 else self._plain(value)

    def _plain(self, value: Array) -> Instruction:
        """Return a parameter, or sometimes a constant."""
        literal = Literal.of(np.ascontiguousarray(value).reshape(value.shape))
        if self.choose.random() < 0.15 and value.size <= 64:
            return self.builder.constant(literal)
        self.inputs.append(literal.value)
        return self.builder.parameter(len(self.inputs) - 1, literal.shape)

    def _some_dims(self, value: Array) -> tuple[int, ...]:
        count = self.choose.randint(1, value.ndim)
        return tuple(sorted(self.choose.sample(range(value.ndim), count)))

    def _reversed(self, value: Array) -> Instruction:
        if not value.ndim:
            return self._plain(value)
        dims = self._some_dims(value)
        return self.builder.reverse(self._again(np.flip(value, dims)), dimensions=dims)

    def _transposed(self, value: Array) -> Instruction:
        order = self.choose.sample(range(value.ndim), value.ndim)
        source = np.transpose(value, np.argsort(order) if order else ())
        return self.builder.transpose(self._again(source), dimensions=tuple(order))

    def _embedded(self, value: Array) -> Instruction:
        """Return a strided slice of a larger array."""
        steps = [self.choose.choice((1, 1, 2, 3)) for _ in value.shape]
        starts = [self.choose.randint(0, 2) for _ in value.shape]
        ends = [
            start + max(0, size - 1) * step + (1 if size else 0)
            for start, size, step in zip(starts, value.shape, steps, strict=True)
        ]
        whole = self._filled([end + self.choose.randint(0, 2) for end in ends], value)
        bounds = tuple(zip(starts, ends, steps, strict=True))
        whole[tuple(slice(*bound) for bound in bounds)] = value
        return self.builder.slice(self._again(whole), slice=bounds)

    def _filled(self, dims: Sequence[int], like: Array) -> Array:
        """Return an array of numbers that no result may depend on."""
        whole = np.empty(tuple(dims), like.dtype)
        whole[...] = like.flat[0] if like.size else np.zeros((), like.dtype)
        return whole

    def _halves(self, value: Array) -> Instruction:
        if not value.ndim:
            return self._plain(value)
        dim = self.choose.randrange(value.ndim)
        at = self.choose.randint(0, value.shape[dim])
        first, second = np.split(value, [at], dim)
        return self.builder.concatenate(self._again(first), self._again(second), dimensions=(dim,))

    def _regrouped(self, value: Array) -> Instruction:
        dims = list(value.shape)
        at = self.choose.randint(0, len(dims))
        if len(dims) > 1 and self.choose.random() < 0.6:
            at = min(at, len(dims) - 2)
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        else:
            dims.insert(at, 1)
        return self.builder.reshape_to(self._again(value.reshape(dims)), value.shape)

    def _chosen(self, value: Array) -> Instruction:
        """Return the value by a condition that data decides."""
        yes = self.choose.random() < 0.5
        pair = [self._again(value), self._again(self._filled(value.shape, value))]
        pair = pair if yes else pair[::-1]
        predicate = self._plain(np.asarray(yes))
        if self.choose.random() < 0.5:
            return self.builder.select(predicate, *pair)
        branches = tuple(_identity(name, pair[0].shape) for name in ("yes", "no"))
        return self.builder.conditional(predicate, *pair, branch_computations=branches)

    def _looped(self, value: Array) -> Instruction:
        """Return the value after an even number of reversals in a loop."""
        if not value.ndim:
            return self._plain(value)
        dims = self._some_dims(value)
        trips = 2 * self.choose.randint(0, 2)
        limit = self._plain(np.int32(trips))
        source = self._again(value)
        state = Shape.tuple((Shape.array(S32, ()), Shape.array(S32, ()), source.shape))
        start = self.builder.tuple(self.builder.constant(np.int32(0)), limit, source)
        made = self.builder.emit(
            "while", start, condition=_counts(state), body=_reverses(state, dims)
        )
        return self.builder.get_tuple_element(made, index=2)

    def _rows(self, value: Array) -> Instruction:
        """Return rows that a gather takes from permuted ones."""
        if not value.ndim or not value.size:
            return self._plain(value)
        count = value.shape[0]
        order = np.array(self.choose.sample(range(count), count), np.int32)
        return self.builder.gather(
            self._again(value[np.argsort(order)]),
            self._plain(order),
            offset_dims=tuple(range(1, value.ndim)),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=1,
            slice_sizes=(1, *value.shape[1:]),
        )

    def _dynamic(self, value: Array) -> Instruction:
        starts = [self.choose.randint(0, 2) for _ in value.shape]
        whole = self._filled(
            [start + size for start, size in zip(starts, value.shape, strict=True)], value
        )
        spans = zip(starts, value.shape, strict=True)
        whole[tuple(slice(start, start + size) for start, size in spans)] = value
        indices = [self._plain(np.int32(start)) for start in starts]
        return self.builder.dynamic_slice(
            self._again(whole), *indices, dynamic_slice_sizes=tuple(value.shape)
        )

    def _behind_barrier(self, value: Array) -> Instruction:
        made = self.builder.emit("opt-barrier", self.builder.tuple(self._again(value)))
        return self.builder.get_tuple_element(made, index=0)

    # ---- results

    def moved(self, value: Instruction, *, exact: bool) -> Instruction:
        """Return the value moved around; `exact` if elements may be left out."""
        ways = [self._turn, self._order, self._pad, self._twice, self._flat, self._spread]
        ways += [self._every] if exact else []
        for _ in range(self.choose.choice((0, 0, 1, 2))):
            size = value.shape.size
            if value.shape.is_static and isinstance(size, int) and size <= LARGEST:
                value = self.choose.choice(ways)(value)
        return value

    def _turn(self, value: Instruction) -> Instruction:
        rank = value.shape.rank
        dims = tuple(dim for dim in range(rank) if self.choose.random() < 0.5)
        return self.builder.reverse(value, dimensions=dims)

    def _order(self, value: Instruction) -> Instruction:
        order = self.choose.sample(range(value.shape.rank), value.shape.rank)
        return self.builder.transpose(value, dimensions=tuple(order))

    def _pad(self, value: Instruction) -> Instruction:
        zero = self.builder.constant(np.zeros((), value.shape.dtype.numpy))
        padding = tuple(
            (self.choose.randint(0, 2), self.choose.randint(0, 2), self.choose.choice((0, 0, 1)))
            for _ in value.shape.dims
        )
        return self.builder.pad(value, zero, padding=padding)

    def _twice(self, value: Instruction) -> Instruction:
        if not value.shape.rank:
            return value
        dim = self.choose.randrange(value.shape.rank)
        return self.builder.concatenate(value, value, dimensions=(dim,))

    def _flat(self, value: Instruction) -> Instruction:
        return self.builder.reshape_to(value, (value.shape.size,))

    def _spread(self, value: Instruction) -> Instruction:
        dims = list(value.shape.dims)
        at = self.choose.randint(0, len(dims))
        dims.insert(at, self.choose.randint(1, 3))
        kept = tuple(dim for dim in range(len(dims)) if dim != at)
        return self.builder.broadcast_to(value, tuple(dims), kept)

    def _every(self, value: Instruction) -> Instruction:
        bounds: list[tuple[int, Any, int]] = []
        for size in value.shape.static_dims:
            start = self.choose.randint(0, min(1, size))
            bounds.append((start, size, self.choose.randint(1, 3)))
        return self.builder.slice(value, slice=tuple(bounds))


def _identity(name: str, shape: Shape) -> Computation:
    builder = Builder(name)
    return builder.build(builder.copy(builder.parameter(0, shape)))


def _counts(state: Shape) -> Computation:
    """Return the condition: the first element of the state is less than the second."""
    builder = Builder("condition")
    given = builder.parameter(0, state)
    pair = [builder.get_tuple_element(given, index=number) for number in (0, 1)]
    made = builder.compare(*pair, direction="LT")
    assert made.shape.dtype is PRED
    return builder.build(made)


def _reverses(state: Shape, dims: tuple[int, ...]) -> Computation:
    builder = Builder("body")
    given = builder.parameter(0, state)
    number, limit, value = (builder.get_tuple_element(given, index=n) for n in range(3))
    following = builder.add(number, builder.constant(np.int32(1)))
    turned = builder.reverse(value, dimensions=dims)
    return builder.build(builder.tuple(following, limit, turned))
