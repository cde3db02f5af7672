# SPDX-License-Identifier: Apache-2.0
"""Cases of control flow, random bits and programs of several ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tests.differential.case import Build, Case, seed_of, values
from tests.differential.shaping_cases import SUM, build_one

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _element(b: Builder, value: Instruction, index: int) -> Instruction:
    return b.get_tuple_element(value, index=index)


def _less(state: Shape, limit: int | None) -> Computation:
    """Return the condition: element 0 is less than `limit`, or than element 1."""
    b = Builder("condition")
    given = b.parameter(0, state)
    bound = _element(b, given, 1) if limit is None else b.constant(np.int32(limit))
    return b.build(b.compare(_element(b, given, 0), bound, direction="LT"))


def whiles() -> Iterator[Case]:
    """Loops: of no, one and many rounds; state swapped, updated in place; bound at run time."""
    for element in ("f32", "s32", "bf16", "f64", "u8"):
        for dims in ((), (5,), (3, 17), (0,)):
            for rounds in (0, 1, 2, 7):
                for kind in ("add", "swap", "update", "bound"):
                    if kind == "update" and dims != (5,):
                        continue
                    name = f"while {element}{list(dims)} x{rounds} {kind}"
                    generator = seed_of(name)
                    first, second = (values(element, dims, generator) for _ in range(2))
                    bound = np.int32(rounds)
                    build = _loop(kind, rounds)
                    yield Case(name, (np.asarray(bound), first, second), build, SUM)


def _loop(kind: str, rounds: int) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        bound, first, second = given
        start = b.tuple(b.constant(np.int32(0)), bound, first, second)
        body = Builder("body")
        state = body.parameter(0, start.shape)
        count, limit, x, y = (_element(body, state, number) for number in range(4))
        after = body.add(count, body.constant(np.int32(1)))
        if kind == "swap":
            x, y = body.maximum(y, x), x
        elif kind == "update":
            row = body.slice(y, slice=((1, 2, 1),))
            x = body.dynamic_update_slice(x, body.add(row, row), count)
        else:
            x, y = body.add(x, y), body.minimum(x, y)
        step = body.build(body.tuple(after, limit, x, y))
        condition = _less(start.shape, None if kind == "bound" else rounds)
        return b.emit("while", start, condition=condition, body=step)

    return build


def conditionals() -> Iterator[Case]:
    """Branches chosen by a pred and by numbers in and out of range; tuples in and out."""
    for element in ("f32", "s32", "pred", "bf16", "s64"):
        for dims in ((), (17,), (3, 5), (0,)):
            for chosen in (False, True):
                name = f"conditional {element}{list(dims)} {chosen}"
                data = values(element, dims, seed_of(name))
                yield Case(name, (np.array(chosen), data), _branches(2))
            for number in (-5, 0, 1, 2, 3, 9):
                name = f"conditional {element}{list(dims)} {number} of 3"
                data = values(element, dims, seed_of(name))
                yield Case(name, (np.array(number, np.int32), data), _branches(3))


def _branches(count: int) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        chosen, data = given
        branches = []
        for number in range(count):
            inner = Builder(f"branch{number}")
            x, y = (_element(inner, inner.parameter(0, Shape.tuple((data.shape,) * 2)), 0),) * 2
            value = (x, inner.maximum(x, y), inner.add(x, x))[number]
            branches.append(inner.build(inner.tuple(value, x)))
        both = b.tuple(data, data)
        return b.conditional(chosen, *[both] * count, branch_computations=tuple(branches))

    return build


def random_bits() -> Iterator[Case]:
    """Bits of both generators, exactly, for every width and for odd counts."""
    for algorithm, words in (("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3),
                             ("rng_default", 2)):  # fmt: skip
        for element in ("u8", "u16", "u32", "u64"):
            for dims in ((), (1,), (5,), (3, 7), (1237,), (0,)):
                name = f"rng-bit-generator {algorithm}{words} {element}{list(dims)}"
                state = seed_of(name).integers(0, 1 << 63, words).astype(np.uint64)
                size = ",".join(map(str, dims))
                shape = Shape.tuple(
                    (Shape.array("u64", (words,)), Shape.array(element, tuple(dims)))
                )
                assert size is not None
                yield Case(name, (state,), _bits(algorithm, shape))


def _bits(algorithm: str, shape: Shape) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        return b.rng_bit_generator(*given, shape=shape, algorithm=algorithm)

    return build


def programs() -> Iterator[Case]:
    """Softmax and layer norm, and calls: what models are made of."""
    for element in ("f32", "bf16", "f64", "f16"):
        for dims in ((1, 1), (3, 5), (7, 129), (2, 1000)):
            name = f"softmax {element}{list(dims)}"
            data = (values(element, dims, seed_of(name)),)
            yield Case(name, data, _softmax, SUM)
            name = f"layernorm {element}{list(dims)}"
            data = (values(element, dims, seed_of(name)),)
            yield Case(name, data, _layer_norm, SUM)
    for name, dims in (("map", (3, 5)), ("call", (7,))):
        data = (values("f32", dims, seed_of(name)),) * 2
        yield Case(f"{name} f32{list(dims)}", data, _called(name), SUM)
    data = (values("f32", (4,), seed_of("barrier")),)
    yield Case("opt-barrier f32", data, build_one("opt-barrier"))


def _row(b: Builder, value: Instruction, reducer: str, start: float) -> Instruction:
    element = value.shape.dtype
    called = scalar_computation(reducer, element)
    reduced = b.reduce(value, b.constant(start, element), dimensions=(1,), to_apply=called)
    return b.broadcast_to(reduced, value.shape.dims, (0,))


def _softmax(b: Builder, given: Sequence[Instruction]) -> Instruction:
    (x,) = given
    e = b.exponential(b.subtract(x, _row(b, x, "maximum", float("-inf"))))
    return b.divide(e, _row(b, e, "add", 0))


def _layer_norm(b: Builder, given: Sequence[Instruction]) -> Instruction:
    (x,) = given
    count = b.full(x.shape.dims[1], x.shape)
    centered = b.subtract(x, b.divide(_row(b, x, "add", 0), count))
    variance = b.divide(_row(b, b.multiply(centered, centered), "add", 0), count)
    return b.multiply(centered, b.rsqrt(b.add(variance, b.full(1e-2, x.shape))))


def _called(opcode: str) -> Build:
    def build(b: Builder, given: Sequence[Instruction]) -> Instruction:
        if opcode == "map":
            called = scalar_computation("multiply", dtype("f32"))
            dims = tuple(range(given[0].shape.rank))
            return b.map(*given, dimensions=dims, to_apply=called)
        inner = Builder("called")
        x, y = (inner.parameter(n, given[n].shape) for n in range(2))
        called = inner.build(inner.tuple(inner.add(x, y), inner.subtract(x, y)))
        return b.call(*given, to_apply=called)

    return build


def cases() -> Iterator[Case]:
    """Every case of this file."""
    for family in (whiles, conditionals, random_bits, programs):
        yield from family()
