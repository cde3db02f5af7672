# SPDX-License-Identifier: Apache-2.0
"""Functions of elements over every op that moves elements, in short odd rows and many of them.

Where a row is no power of two, kernels lay rows end to end, cut lanes, pick them out of registers
and mask what is left over; functions are subroutines for some lane counts. Here each function meets
each of these, before and after it. Inputs are multiples of 1/64 between 1/4 and 2, so that what is
only moved is exact, every function is well conditioned, and its argument is inside of its domain.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
from tests.fuzz.program_case import Array, ProgramCase
from tests.fuzz.target import Target
from tests.fuzz.targets.exact_programs import check

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import S32, DType, dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.support.diagnostics import VerifyError

COLUMNS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17)
ROWS = (63, 64, 65, 66, 67, 71, 96, 100, 127, 128, 129, 130)
LARGEST = 1 << 13
TOLERANCES = {"f32": 3e-5, "f64": 1e-12, "f16": 4e-3, "bf16": 3e-2, "c64": 2e-4, "c128": 1e-11}
SMOOTH = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "sine", "cosine", "tan",
    "sqrt", "rsqrt", "cbrt", "logistic", "erf", "acosh", "asin", "acos", "asinh", "atanh", "sinh",
    "cosh", "abs", "negate",
)  # fmt: skip
# Their results jump: they are for what is exact.
JUMPING = ("sign", "floor", "ceil", "round-nearest-even", "round-nearest-afz")
OF_TWO = ("power", "atan2", "add", "multiply", "divide", "subtract")
OF_COMPLEX = frozenset(
    {"exponential", "log", "log-plus-one", "exponential-minus-one", "tanh", "sine", "cosine",
     "sqrt", "rsqrt", "negate", "power", "add", "multiply", "divide", "subtract", "sign"}
)  # fmt: skip
# Arguments in [1/4, 2) are outside of their domain.
BELOW_ONE, ABOVE_ONE = frozenset({"asin", "acos", "atanh"}), frozenset({"acosh"})


def generate(choose: random.Random) -> bytes:
    """Return a program with its inputs."""
    maker = MovedFunctions(choose)
    module = maker.module()
    draw = np.random.default_rng(choose.getrandbits(32))
    inputs = [_numbers(draw, parameter.shape) for parameter in module.entry.parameters]
    close = f"close {TOLERANCES[maker.element.name]}"
    return ProgramCase(module, inputs, (close,)).to_bytes()


def _numbers(draw: np.random.Generator, shape: Shape) -> Array:
    dims, element = shape.static_dims, shape.dtype
    if element.is_integer:
        return draw.integers(-2, 70, dims).astype(element.numpy)
    parts = draw.integers(16, 128, (2, *dims)) / 64
    return (parts[0] + 1j * parts[1] if element.is_complex else parts[0]).astype(element.numpy)


class MovedFunctions:
    """Makes one program: moved parameters, functions of them, moved results."""

    def __init__(self, choose: random.Random) -> None:
        """Choose an element type and the parameters' shapes."""
        self.choose = choose
        names = ("f32", "f32", "f32", "f64", "f64", "bf16", "f16", "c64", "c128")
        self.element: DType = dtype(choose.choice(names))
        self.builder = Builder("main")
        rows, columns = choose.choice(ROWS), choose.choice(COLUMNS)
        shapes = [(rows, columns), (columns, rows), (2, rows, columns), (rows,), (columns,)]
        dims = [shapes[0], *choose.sample(shapes, choose.randint(0, 2))]
        self.pool = [self.builder.parameter(n, self._shape(d)) for n, d in enumerate(dims)]
        self.index = self.builder.parameter(len(dims), Shape.array(S32, ()))

    def module(self) -> Module:
        """Return the program; its results are one to three functions."""
        results = [self._result() for _ in range(self.choose.randint(1, 3))]
        return Module.of("moved", self.builder.build(self.builder.tuple(*results, self.index)))

    def _result(self) -> Instruction:
        choose = self.choose
        value = self._moved(choose.choice(self.pool), choose.randint(0, 3))
        if len(self.pool) < 6:
            self.pool.append(value)
        found = self._function(value, is_exact=True)
        found = self._moved(found, choose.choice((0, 0, 1, 2)))
        if self.element.is_complex or choose.random() < 0.5:
            return found
        low, high = (self.builder.constant(bound, self.element) for bound in (0.25, 2.0))
        return self._function(self.builder.clamp(low, found, high), is_exact=False)

    # ---- functions

    def _function(self, value: Instruction, *, is_exact: bool) -> Instruction:
        """Return a function of a value; of another of its shape too, perhaps."""
        choose, build = self.choose, self.builder
        names = [*SMOOTH, *(JUMPING if is_exact else ()), *OF_TWO, *OF_TWO]
        if is_exact:
            names += ["remainder", "remainder"]
        if self.element.is_complex:
            names = [name for name in names if name in OF_COMPLEX]
        name = choose.choice(names)
        if name == "remainder" or name in OF_TWO:
            return build.emit(name, value, self._beside(value))
        if name in BELOW_ONE:
            value = build.multiply(value, build.full(0.4375, value.shape))
        elif name in ABOVE_ONE:
            value = build.add(value, build.full(1.0, value.shape))
        found = build.emit(name, value)
        if name in ("sine", "cosine") and choose.random() < 0.5:
            found = build.add(found, build.emit("cosine" if name == "sine" else "sine", value))
        return found

    def _beside(self, value: Instruction) -> Instruction:
        """Return an exact value of the same shape."""
        build, dims = self.builder, value.shape.static_dims
        like = [one for one in self.pool if one.shape.compatible(value.shape)]
        rows = [one for one in self.pool if one.shape.dims == dims[-1:] != dims]
        if like and self.choose.random() < 0.5:
            return self.choose.choice(like)
        if rows and self.choose.random() < 0.7:
            return build.broadcast_to(self.choose.choice(rows), dims)
        if not dims or self.element.is_complex or max(dims) > 120:
            return build.full(self.choose.randint(16, 127) / 64, value.shape)
        numbers = build.iota(shape=value.shape, iota_dimension=self.choose.randrange(len(dims)))
        start = build.full(8.0, value.shape)
        return build.multiply(build.add(numbers, start), build.full(1 / 64, value.shape))

    # ---- movement

    def _moved(self, value: Instruction, times: int) -> Instruction:
        moves: list[Callable[[Instruction], Instruction]] = [
            self._reverse, self._reverse, self._reverse, self._transpose, self._slice, self._pad,
            self._concatenate, self._broadcast, self._reshape, self._regroup, self._take,
            self._take, self._dynamic_slice, self._dynamic_update_slice, self._maximum,
            self._window, self._select, self._sort,
        ]  # fmt: skip
        done = 0
        while done < times:
            if value.shape.rank == 0:
                return value
            try:
                made = self.choose.choice(moves)(value)
            except (VerifyError, IndexError, ValueError):
                continue
            if 0 < math.prod(made.shape.static_dims) <= LARGEST and made.shape.rank <= 4:
                value, done = made, done + 1
        return value

    def _shape(self, dims: Sequence[int]) -> Shape:
        return Shape.array(self.element, tuple(dims))

    def _dim(self, value: Instruction) -> int:
        """Return a dimension number, mostly the last."""
        rank = value.shape.rank
        return rank - 1 if self.choose.random() < 0.6 else self.choose.randrange(rank)

    def _reverse(self, value: Instruction) -> Instruction:
        dims = {self._dim(value), self._dim(value)}
        return self.builder.reverse(value, dimensions=tuple(sorted(dims)))

    def _transpose(self, value: Instruction) -> Instruction:
        order = list(range(value.shape.rank))
        self.choose.shuffle(order)
        return self.builder.transpose(value, dimensions=tuple(order))

    def _slice(self, value: Instruction) -> Instruction:
        choose, bounds = self.choose, list[tuple[int, int, int]]()
        for size in value.shape.static_dims:
            start = choose.choice((0, 0, min(1, size - 1), choose.randrange(size)))
            stop = choose.choice((size, size, choose.randint(start + 1, size)))
            bounds.append((start, stop, choose.choice((1, 1, 2, 3))))
        return self.builder.slice(value, slice=tuple(bounds))

    def _pad(self, value: Instruction) -> Instruction:
        choose = self.choose
        padding = tuple(
            (choose.choice((0, 0, 1, 2, -1)), choose.choice((0, 0, 1, 3, -1)),
             choose.choice((0, 0, 1, 2)))
            for _ in value.shape.static_dims
        )  # fmt: skip
        return self.builder.pad(value, self.builder.constant(0.5, self.element), padding=padding)

    def _concatenate(self, value: Instruction) -> Instruction:
        dim, parts = self._dim(value), [value]
        for _ in range(self.choose.randint(1, 2)):
            parts.append(
                self.choose.choice((value, self._reverse(value), self._slice_of(value, dim)))
            )
        self.choose.shuffle(parts)
        return self.builder.concatenate(*parts, dimensions=(dim,))

    def _slice_of(self, value: Instruction, dim: int) -> Instruction:
        """Return a part of a value along one dimension."""
        sizes = value.shape.static_dims
        start = self.choose.randrange(sizes[dim])
        bounds = [(start if n == dim else 0, size, 1) for n, size in enumerate(sizes)]
        return self.builder.slice(value, slice=tuple(bounds))

    def _broadcast(self, value: Instruction) -> Instruction:
        rank, size = value.shape.rank, self.choose.choice(COLUMNS)
        new = self.choose.choice((rank, rank, self.choose.randint(0, rank)))
        dims = [*value.shape.static_dims[:new], size, *value.shape.static_dims[new:]]
        places = tuple(place for place in range(rank + 1) if place != new)
        return self.builder.broadcast(value, shape=self._shape(dims), dimensions=places)

    def _reshape(self, value: Instruction) -> Instruction:
        dims = list(value.shape.static_dims)
        at = self.choose.randrange(len(dims))
        if at + 1 < len(dims) and self.choose.random() < 0.5:
            dims[at : at + 2] = [dims[at] * dims[at + 1]]
        else:
            divisors = [n for n in range(1, dims[at] + 1) if dims[at] % n == 0]
            first = self.choose.choice(divisors)
            dims[at : at + 1] = [first, dims[at] // first]
        return self.builder.reshape(value, shape=self._shape(dims))

    def _regroup(self, value: Instruction) -> Instruction:
        total = math.prod(value.shape.static_dims)
        last = self.choose.choice([n for n in COLUMNS if total % n == 0])
        return self.builder.reshape(value, shape=self._shape((total // last, last)))

    def _take(self, value: Instruction) -> Instruction:
        sizes, rank = value.shape.static_dims, value.shape.rank
        dim, counts = self.choose.choice(((0, (*COLUMNS, *ROWS)), (rank - 1, COLUMNS)))
        count = self.choose.choice(counts)
        indices = [self.choose.randint(-1, sizes[dim]) for _ in range(count)]
        return self.builder.gather(
            value,
            self.builder.constant(np.array(indices, np.int32)),
            offset_dims=tuple(n for n in range(rank) if n != dim),
            collapsed_slice_dims=(dim,),
            start_index_map=(dim,),
            index_vector_dim=1,
            slice_sizes=tuple(1 if n == dim else size for n, size in enumerate(sizes)),
        )

    def _window_sizes(self, value: Instruction) -> tuple[int, ...]:
        sizes = value.shape.static_dims
        return tuple(
            self.choose.choice((size, max(1, size - 1), (size + 1) // 2)) for size in sizes
        )

    def _dynamic_slice(self, value: Instruction) -> Instruction:
        starts = [self.index] * value.shape.rank
        return self.builder.dynamic_slice(
            value, *starts, dynamic_slice_sizes=self._window_sizes(value)
        )

    def _dynamic_update_slice(self, value: Instruction) -> Instruction:
        sizes = self._window_sizes(value)
        part = self.builder.slice(value, slice=tuple((0, size, 1) for size in sizes))
        return self.builder.dynamic_update_slice(value, part, *[self.index] * value.shape.rank)

    def _maximum(self, value: Instruction) -> Instruction:
        if self.element.is_complex:
            return self._reverse(value)
        name = self.choose.choice(("maximum", "minimum"))
        start = self.builder.constant(1.0, self.element)
        called = scalar_computation(name, self.element)
        return self.builder.reduce(value, start, dimensions=(self._dim(value),), to_apply=called)

    def _window(self, value: Instruction) -> Instruction:
        if self.element.is_complex:
            return self._transpose(value)
        choose, windows = self.choose, list[WindowDimension]()
        for size in value.shape.static_dims:
            count = choose.randint(1, min(3, size))
            low, high = choose.randint(0, 1), choose.randint(0, 1)
            stride = choose.choice((1, 1, 2))
            windows.append(WindowDimension(count, stride=stride, low=low, high=high))
        start = self.builder.constant(0.25, self.element)
        called = scalar_computation("maximum", self.element)
        return self.builder.reduce_window(value, start, window=tuple(windows), to_apply=called)

    def _select(self, value: Instruction) -> Instruction:
        build, dims = self.builder, value.shape.static_dims
        counted = value.shape.with_dtype(S32)
        numbers = build.iota(shape=counted, iota_dimension=self._dim(value))
        bound = build.full(self.choose.randint(0, max(dims)), counted)
        less = build.compare(numbers, bound, direction="LT")
        return build.select(less, value, self._reverse(value))

    def _sort(self, value: Instruction) -> Instruction:
        if self.element.is_complex:
            return self._reverse(value)
        inner = Builder("before")
        pair = [inner.parameter(n, Shape.array(self.element, ())) for n in (0, 1)]
        before = inner.build(inner.compare(*pair, direction="LT"))
        dim = self._dim(value)
        return self.builder.sort(value, dimensions=(dim,), to_apply=before, is_stable=True)


TARGET = Target("moved_functions", ".hlo", generate, check, share=2.0)
