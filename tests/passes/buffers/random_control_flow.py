# SPDX-License-Identifier: Apache-2.0
"""Random modules that are hard on buffers: in-place updates, shuffled loop states, nested branches.

All arrays are `f32[4]`, so anything may stand anywhere: results, loop states and branch results are
drawn from the same pool, with repetitions, parameters and constants among them.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from tests.passes.buffers.common import array_shape, counting_condition, elements

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion

VECTOR = array_shape(4)
COUNTER = array_shape(element="s32")


def shuffling_module(
    seed: int, *, steps: int = 6, depth: int = 2, asserts: bool = False
) -> tuple[Module, list[object]]:
    """Return a module and inputs for it.

    With `asserts`, there are assertions anywhere, and donated parameters survive them.
    """
    choose = random.Random(seed)
    b = Builder("main")
    count = choose.randint(1, 3)
    pool = [b.parameter(n, VECTOR) for n in range(count)]
    grown = _Grower(choose, b, depth, asserts=asserts)
    grown.grow(pool, steps)
    outputs = choose.randint(1, 4)
    root = b.tuple(*grown.several(pool, outputs))
    module = Module.of("shuffling", b.build(root))
    donated = choose.sample(range(count), choose.randint(0, min(count, outputs)))
    places = choose.sample(range(outputs), len(donated))
    pairs = zip(places, donated, strict=True)
    module.aliases = tuple(Alias((o,), p, survives_failure=asserts) for o, p in pairs)
    inputs: list[object] = [np.arange(4, dtype=np.float32) + 10 * n for n in range(count)]
    return module, inputs


class _Grower:
    def __init__(self, choose: random.Random, b: Builder, depth: int, *, asserts: bool) -> None:
        self.choose = choose
        self.asserts = asserts
        self.b = b
        self.depth = depth

    def grow(self, pool: list[Instruction], steps: int) -> None:
        makers: list[Callable[[list[Instruction]], list[Instruction]]] = [
            self._elementwise, self._elementwise, self._update, self._update, self._fused_update,
            self._fused_elementwise, self._constant, self._reverse, self._copy, self._pair,
        ]  # fmt: skip
        if self.depth:
            makers += [self._loop, self._loop, self._branches]
        if self.asserts:
            makers += [self._assertion, self._assertion]
        for _ in range(steps):
            pool.extend(self.choose.choice(makers)(pool))

    def several(self, pool: list[Instruction], count: int) -> list[Instruction]:
        return [self.choose.choice(pool) for _ in range(count)]

    def _elementwise(self, pool: list[Instruction]) -> list[Instruction]:
        return [self.b.add(*self.several(pool, 2))]

    def _copy(self, pool: list[Instruction]) -> list[Instruction]:
        return [self.b.copy(self.choose.choice(pool))]

    def _reverse(self, pool: list[Instruction]) -> list[Instruction]:
        return [self.b.reverse(self.choose.choice(pool), dimensions=(0,))]

    def _constant(self, pool: list[Instruction]) -> list[Instruction]:
        return [self.b.constant(np.full(4, self.choose.randint(0, 2), np.float32))]

    def _pair(self, pool: list[Instruction]) -> list[Instruction]:
        pair = self.b.tuple(*self.several(pool, 2))
        return [self.b.get_tuple_element(self.b.opt_barrier(pair), index=self.choose.randint(0, 1))]

    def _assertion(self, pool: list[Instruction]) -> list[Instruction]:
        """Assert what always holds of a value."""
        first = self.b.slice(self.choose.choice(pool), slice=((0, 1, 1),))
        same = self.b.compare(first, first, direction="EQ")
        emit_assertion(self.b, self.b.reshape_to(same, ()), "a number is itself")
        return []

    def _update(self, pool: list[Instruction]) -> list[Instruction]:
        x, y = self.several(pool, 2)
        part = self.b.slice(y, slice=((1, 3, 1),))
        where = self.b.constant(self.choose.randint(0, 2), "s32")
        return [self.b.dynamic_update_slice(x, part, where)]

    def _fused_update(self, pool: list[Instruction]) -> list[Instruction]:
        f = Builder("fused_update")
        p, q = f.parameter(0, VECTOR), f.parameter(1, VECTOR)
        where = f.constant(self.choose.randint(0, 2), "s32")
        source = self.choose.choice((p, q))
        part = f.dynamic_slice(source, where, dynamic_slice_sizes=(2,))
        fused = f.build(f.dynamic_update_slice(p, f.negate(part), where))
        return [self.b.fusion(*self.several(pool, 2), kind="kLoop", calls=fused)]

    def _fused_elementwise(self, pool: list[Instruction]) -> list[Instruction]:
        f = Builder("fused_elementwise")
        p, q = f.parameter(0, VECTOR), f.parameter(1, VECTOR)
        fused = f.build(f.tuple(f.add(p, q), f.subtract(p, q)))
        return elements(self.b, self.b.fusion(*self.several(pool, 2), kind="kLoop", calls=fused))

    # ---- control flow

    def _callee(self, name: str, parameter: Shape, results: int, *, counts: bool) -> Computation:
        """Return a computation from `parameter` to a tuple of as many vectors."""
        b = Builder(name)
        inner = _Grower(self.choose, b, self.depth - 1, asserts=self.asserts)
        given = elements(b, b.parameter(0, parameter))
        pool = given[1:] if counts else given
        mine = list(pool)
        inner.grow(mine, self.choose.randint(0, 4))
        roots: list[Instruction] = []
        if counts:
            roots.append(b.add(given[0], b.constant(1, "s32")))
        for number in range(results):
            keep = number < len(pool) and self.choose.random() < 0.3
            roots.append(pool[number] if keep else self.choose.choice(mine))
        return b.build(b.tuple(*roots))

    def _loop(self, pool: list[Instruction]) -> list[Instruction]:
        count = self.choose.randint(1, 3)
        state = Shape.tuple((COUNTER, *[VECTOR] * count))
        body = self._callee("body", state, count, counts=True)
        condition = counting_condition(state, self.choose.randint(0, 3))
        start = self.b.constant(0, "s32")
        loop = self.b.while_(
            self.b.tuple(start, *self.several(pool, count)), condition=condition, body=body
        )
        return elements(self.b, loop)[1:]

    def _branches(self, pool: list[Instruction]) -> list[Instruction]:
        results = self.choose.randint(1, 3)
        branches: list[Computation] = []
        operands: list[Instruction] = []
        for _ in range(self.choose.randint(2, 3)):
            given = self.several(pool, self.choose.randint(1, 2))
            operands.append(self.b.tuple(*given))
            branches.append(self._callee("branch", operands[-1].shape, results, counts=False))
        index = self.b.constant(self.choose.randint(0, 2), "s32")
        made = self.b.conditional(index, *operands, branch_computations=tuple(branches))
        return elements(self.b, made)
