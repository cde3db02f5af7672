# SPDX-License-Identifier: Apache-2.0
"""Programs that compute sizes: definitions, loops whose state grows and swaps, branches.

A program works on vectors of s32, so that results are exact. A size is what a vector's sum says, 0
to 6, or a number that a loop changes. Results may take the memory of parameters: the program runs
with arguments that it must leave alone, and with donated ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from tests.fuzz.program_case import ProgramCase, flat, read_case
from tests.fuzz.target import Target

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape
from ingot.hlo.size_definitions import define_size
from ingot.hlo.verifier import verify

_MOST = 7
_DEPTH = 2
Vector = Instruction


@dataclass(slots=True)
class _Program:
    """What all computations of a program share."""

    choose: random.Random
    names: count[int] = field(default_factory=count)
    add: Computation = field(default_factory=lambda: scalar_computation("add", S32))

    def size(self) -> Dim:
        return Dim.symbol(f"c{next(self.names)}")


def _scalar(b: Builder, value: int) -> Instruction:
    return b.constant(value, S32)


def _vector(size: int | Dim) -> Shape:
    return Shape.array(S32, (size,))


def _sum(p: _Program, b: Builder, x: Vector) -> Instruction:
    return b.emit("reduce", x, _scalar(b, 0), dimensions=(0,), to_apply=p.add)


def _small(b: Builder, value: Instruction) -> Instruction:
    """Return a number of 0 to `_MOST - 1` that follows from another."""
    return b.emit("abs", b.emit("remainder", value, _scalar(b, _MOST)))


def _defined(p: _Program, b: Builder, values: list[Vector]) -> Vector:
    """A vector of a size that another one says."""
    size = p.size()
    define_size(b, _small(b, _sum(p, b, p.choose.choice(values))), size.text)
    return b.emit("iota", shape=_vector(size), iota_dimension=0)


def _joined(p: _Program, b: Builder, values: list[Vector]) -> Vector:
    parts = p.choose.choices(values, k=2)
    size = parts[0].shape.dims[0] + parts[1].shape.dims[0]
    return b.emit("concatenate", *parts, shape=_vector(size), dimensions=(0,))


def _changed(p: _Program, b: Builder, values: list[Vector]) -> Vector:
    """Another vector of the same size, by ops that fuse."""
    x = p.choose.choice(values)
    total = b.broadcast_to(_sum(p, b, p.choose.choice(values)), x.shape.dims)
    y = b.emit(p.choose.choice(("add", "subtract", "multiply", "maximum")), x, total)
    if p.choose.random() < 0.5:
        y = b.emit("reverse", y, dimensions=(0,))
    return y


def _updated(p: _Program, b: Builder, values: list[Vector]) -> Vector:
    """A vector with one element changed, which may be made in its memory."""
    x = p.choose.choice(values)
    at = b.emit("reshape", _small(b, _sum(p, b, x)), shape=_vector(1))
    value = b.emit("reshape", _sum(p, b, p.choose.choice(values)), shape=_vector(1))
    return b.emit(
        "scatter",
        *(x, at, value),
        to_apply=p.add,
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )


def _branches(p: _Program, b: Builder, values: list[Vector], depth: int) -> Vector:
    """One of some vectors, each made in its branch."""
    x, other = p.choose.choices(values, k=2)
    operand = b.emit("tuple", x, other)
    made: list[Computation] = []
    for _ in range(p.choose.choice((2, 3))):
        inner = Builder("branch")
        state = inner.parameter(0, operand.shape)
        parts = [inner.element_of(state, 0), inner.element_of(state, 1)]
        result = _grow(p, inner, parts, p.choose.randint(0, 3), depth + 1)[-1]
        made.append(inner.build(inner.emit("tuple", result, parts[0])))
    index = b.emit("subtract", _small(b, _sum(p, b, x)), _scalar(b, 1))
    shape = Shape.tuple((_vector(p.size()), x.shape))
    given = [operand] * len(made)
    chosen = b.emit("conditional", index, *given, shape=shape, branch_computations=tuple(made))
    return b.element_of(chosen, p.choose.choice((0, 0, 1)))


def _loop(p: _Program, b: Builder, values: list[Vector], depth: int) -> Vector:
    """A loop whose vectors have other sizes in each round; they may change places."""
    first, second, same = p.choose.choices(values, k=3)
    start = b.emit("tuple", _scalar(b, 0), first, second, same)
    state = Shape.tuple((start.shape.elements[0], _vector(p.size()), _vector(p.size()), same.shape))
    limit = p.choose.randint(0, 3)
    test = Builder("condition")
    number = test.element_of(test.parameter(0, state), 0)
    condition = test.build(test.emit("compare", number, _scalar(test, limit), direction="LT"))
    inner = Builder("body")
    held = inner.parameter(0, state)
    number, *vectors = (inner.element_of(held, n) for n in range(4))
    grown = _grow(p, inner, vectors, p.choose.randint(1, 3), depth + 1)
    following = p.choose.choices(grown, k=2)
    unchanged = vectors[2] if p.choose.random() < 0.8 else inner.emit("negate", vectors[2])
    number = inner.emit("add", number, _scalar(inner, 1))
    body = inner.build(inner.emit("tuple", number, *following, unchanged))
    made = b.emit("while", start, shape=state, condition=condition, body=body)
    return b.element_of(made, p.choose.choice((1, 1, 2, 3)))


_OPS: list[Callable[[_Program, Builder, list[Vector]], Vector]] = [
    _defined,
    _joined,
    _changed,
    _updated,
]


def _grow(p: _Program, b: Builder, values: list[Vector], steps: int, depth: int) -> list[Vector]:
    """Return the vectors and some more."""
    found = list(values)
    for _ in range(steps):
        kind = p.choose.random()
        if depth < _DEPTH and kind < 0.2:
            found.append(_loop(p, b, found, depth))
        elif depth < _DEPTH and kind < 0.4:
            found.append(_branches(p, b, found, depth))
        else:
            found.append(p.choose.choice(_OPS)(p, b, found))
    return found


def generate(choose: random.Random) -> bytes:
    """Return a program with its inputs."""
    p, b = _Program(choose), Builder("main")
    known = [Dim.symbol("n"), choose.choice((0, 1, 5, 40))]
    parameters = [b.parameter(number, _vector(size)) for number, size in enumerate(known)]
    values = _grow(p, b, parameters, choose.randint(2, 7), 0)
    results = choose.sample(values, choose.randint(1, min(3, len(values))))
    donates = choose.random() < 0.5
    if donates:
        results.append(choose.choice((_changed, _updated))(p, b, parameters))
    module = Module.of("fuzzed", b.build(b.emit("tuple", *results, _sum(p, b, values[-1]))))
    if donates:
        module.aliases = _aliases(parameters, results)
    numbers = np.random.default_rng(choose.getrandbits(32))
    sizes = (choose.choice((0, 1, 2, 7, 33)), known[1])
    inputs = [numbers.integers(-99, 99, size, np.int32) for size in sizes]
    return ProgramCase(module, inputs).to_bytes()


def _aliases(parameters: list[Vector], results: list[Vector]) -> tuple[Alias, ...]:
    """Return aliases of results, the last one first, with parameters of their shapes."""
    found: dict[int, Alias] = {}
    for output in reversed(range(len(results))):
        for parameter, one in enumerate(parameters):
            taken = any(alias.output == (output,) for alias in found.values())
            if not taken and one.shape == results[output].shape:
                found.setdefault(parameter, Alias((output,), parameter))
    return tuple(found.values())


def check(data: bytes) -> str:
    """Compare native code with the evaluator, also where arguments are donated."""
    case = read_case(data)
    verify(case.module)
    executable, want = case.compiled(), case.wanted()
    donated = sorted(alias.parameter for alias in case.module.aliases)
    for donate in ([], donated):
        given = [value.copy() for value in case.inputs]
        found = case.difference("cpu", flat(executable(*given, donate=donate)), want)
        if found:
            return found
        kept = [n for n in range(len(given)) if n not in donate]
        if any((given[n] != case.inputs[n]).any() for n in kept):
            return "an argument that was not donated was overwritten"
    return ""


TARGET = Target("computed_sizes", ".hlo", generate, check)
