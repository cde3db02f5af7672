# SPDX-License-Identifier: Apache-2.0
"""Random programs whose every number is exact: an engine that differs is wrong, by any order.

Arrays hold small whole numbers. For each value the generator knows the largest absolute value that
it can have; an op whose result could pass what the element type holds exactly is left out. So sums
may be made in any order, contracted or not, and in any precision. Element types are mixed by
conversions, sizes are 0, 1, odd and a little large, and ops that move elements are frequent, as
what goes wrong is mostly where fused reads and writes meet.

Example:
    module, inputs = exact_program(seed=7)
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.bounds import RULES, Array, largest, limit, may_be_negative, numbers
from tests.support.random_modules import Maker

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import PRED, S32, DType, dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.support.diagnostics import VerifyError

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65)
TYPES = (
    "f32", "f32", "f32", "bf16", "f16", "f64", "f8e4m3fn", "f8e5m2", "s8", "u8", "s16", "s32",
    "u32", "s64", "pred", "pred", "c64",
)  # fmt: skip
LARGEST = 1 << 13
"""Elements of any array: the evaluator takes its time."""


def exact_program(seed: int) -> tuple[Module, list[Array]]:
    """Return a program of 5 to 40 instructions, and inputs."""
    choose = random.Random(seed)
    elements = tuple(dtype(name) for name in choose.sample(TYPES, choose.randint(1, 3)))
    sizes = (*choose.sample(SIZES, choose.randint(2, 4)), *((0,) if choose.random() < 0.05 else ()))
    maker = ExactMaker(choose, False, sizes=sizes, elements=elements)
    module = maker.module(choose.randint(3, 25))
    draw = np.random.default_rng(seed)
    return module, [numbers(draw, p.shape, maker.bounds[p]) for p in module.entry.parameters]


class ExactMaker(Maker):
    """Grows one computation of exact values; `bounds` says how large each may be."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Know nothing yet."""
        super().__init__(*args, **options)
        self.bounds: dict[Instruction, int] = {}
        self.indices: list[Instruction] = []

    # ---- growing

    def _grow(self, steps: int) -> None:
        for parameter in self.pool:
            self.bounds[parameter] = 1 if parameter.shape.dtype is PRED else 2
        for _ in range(2):
            index = self.builder.parameter(
                len(self.builder.computation.parameters), Shape.array(S32, ())
            )
            self.pool.append(index)
            self.bounds[index] = 6
        self.indices = self.pool[-2:]
        makers: list[Callable[[], Instruction]] = [
            self._arithmetic, self._arithmetic, self._arithmetic, self._arithmetic, self._logic,
            self._compare, self._select, self._clamp, self._convert, self._convert, self._broadcast,
            self._broadcast, self._reshape, self._regroup, self._transpose, self._transpose,
            self._slice, self._pad, self._pad, self._concatenate, self._concatenate, self._reverse,
            self._iota, self._fold, self._fold, self._fold_places, self._window_fold, self._product,
            self._dynamic_slice, self._dynamic_update_slice, self._take, self._scatter, self._sort,
            self._constant,
        ]  # fmt: skip
        while steps > 0:
            try:
                made = self.choose.choice(makers)()
            except (VerifyError, IndexError):
                continue
            steps -= 1
            if self._bound(made) and math.prod(made.shape.static_dims) <= LARGEST:
                self.pool.append(made)

    def _bound(self, made: Instruction) -> bool:
        """Note how large a new value may be; return whether that is exact."""
        if made not in self.bounds:
            known = [self.bounds[operand] for operand in made.operands]
            rule = RULES.get(made.opcode, largest)
            self.bounds[made] = rule(made, known)
        return self.bounds[made] <= limit(made.shape.dtype)

    def _noted(self, made: Instruction, bound: int) -> Instruction:
        self.bounds[made] = bound
        return made

    # ---- choices

    def _any(self, accept: Callable[[Shape], bool] = lambda shape: True) -> Instruction:
        fitting = [value for value in self.pool if accept(value.shape)]
        if fitting:
            return self.choose.choice(fitting[-6:])
        shape = self._shape()
        if not accept(shape):
            raise VerifyError("nothing fits this time")
        return self._constant_of(shape)

    def _constant_of(self, shape: Shape) -> Instruction:
        bound = 1 if shape.dtype is PRED else self.choose.choice((1, 2, 3))
        draw = np.random.default_rng(self.choose.getrandbits(32))
        return self._noted(self.builder.constant(numbers(draw, shape, bound)), bound)

    def _index(self) -> Instruction:
        return self.choose.choice(self.indices)

    def _number(self, value: int, element: DType) -> Instruction:
        literal = np.asarray(value).astype(element.numpy)
        return self._noted(self.builder.constant(literal), abs(value))

    # ---- elementwise

    def _arithmetic(self) -> Instruction:
        first = self._any(lambda shape: shape.dtype is not PRED)
        element = first.shape.dtype
        names = ["add", "multiply", "add", "multiply"]
        names += ["subtract", "negate"] if may_be_negative(element) else []
        names += ["maximum", "minimum"] if not element.is_complex else []
        names += ["abs"] if may_be_negative(element) and not element.is_complex else []
        name = self.choose.choice(names)
        if name in ("negate", "abs"):
            return self.builder.emit(name, first)
        return self.builder.emit(name, first, self._like(first.shape))

    def _logic(self) -> Instruction:
        first = self._any(lambda shape: shape.dtype is PRED)
        name = self.choose.choice(("and", "or", "xor", "not"))
        others = () if name == "not" else (self._like(first.shape),)
        return self.builder.emit(name, first, *others)

    def _compare(self) -> Instruction:
        first = self._any()
        names = ("EQ", "NE") if first.shape.dtype.is_complex else ("EQ", "GE", "GT", "LE", "LT")
        direction = self.choose.choice(names)
        made = self.builder.compare(first, self._like(first.shape), direction=direction)
        return self._noted(made, 1)

    def _select(self) -> Instruction:
        return self._noted_select(super()._select())

    def _noted_select(self, made: Instruction) -> Instruction:
        return self._noted(made, max(self.bounds[operand] for operand in made.operands[1:]))

    def _clamp(self) -> Instruction:
        operand = self._any(lambda shape: shape.dtype is not PRED and not shape.dtype.is_complex)
        element = operand.shape.dtype
        low = self._number(-2 if may_be_negative(element) else 0, element)
        return self._noted(self.builder.clamp(low, operand, self._number(3, element)), 3)

    def _convert(self) -> Instruction:
        target = dtype(self.choose.choice(TYPES)) if self.choose.random() < 0.5 else None
        target = target or self.choose.choice(self.elements)
        operand = self._any(
            lambda s: (
                (target.is_complex or not s.dtype.is_complex)
                and (may_be_negative(target) or target is PRED or not may_be_negative(s.dtype))
            )
        )
        made = self.builder.emit("convert", operand, shape=operand.shape.with_dtype(target))
        return self._noted(made, 1 if target is PRED else self.bounds[operand])

    # ---- shaping

    def _regroup(self) -> Instruction:
        """Return a reshape to any other dimensions."""
        operand = self._any(lambda shape: shape.size > 1)
        rest, dims = math.prod(operand.shape.static_dims), list[int]()
        while rest > 1 and len(dims) < 4:
            size = self.choose.choice([n for n in range(1, rest + 1) if rest % n == 0])
            dims.append(size)
            rest //= size
        shape = operand.shape.with_dims((*dims, rest))
        return self.builder.reshape(operand, shape=shape)

    def _concatenate(self) -> Instruction:
        first = self._any(lambda shape: shape.rank > 0)
        place, parts = self._place(first.shape), [first]
        for _ in range(self.choose.randint(1, 3)):
            dims = list(first.shape.static_dims)
            dims[place] = self.choose.choice((1, dims[place], *self.sizes))
            parts.append(self._like(first.shape.with_dims(tuple(dims))))
        self.choose.shuffle(parts)
        return self.builder.concatenate(*parts, dimensions=(place,))

    # ---- folds and products

    def _reducer(self, element: DType) -> tuple[str, int]:
        if element is PRED:
            return self.choose.choice((("and", 1), ("or", 0)))
        names = [("add", 0), ("add", 0)]
        if not element.is_complex:
            low = -4 if may_be_negative(element) else 0
            names += [("maximum", low), ("minimum", 4)]
        return self.choose.choice(names)

    def _fold(self) -> Instruction:
        operand = self._any(lambda shape: shape.rank > 0)
        name, start = self._reducer(operand.shape.dtype)
        count = self.choose.randint(1, operand.shape.rank)
        places = tuple(sorted(self.choose.sample(range(operand.shape.rank), count)))
        reducer = scalar_computation(name, operand.shape.dtype)
        start_value = self._number(start, operand.shape.dtype)
        made = self.builder.reduce(operand, start_value, dimensions=places, to_apply=reducer)
        times = math.prod(operand.shape.static_dims[place] for place in places)
        return self._noted(made, self._folded(name, operand, start, times))

    def _folded(self, name: str, operand: Instruction, start: int, times: int) -> int:
        bound = self.bounds[operand]
        return bound * times if name == "add" else max(bound, abs(start))

    def _fold_places(self) -> Instruction:
        """Return the first place of the largest element along one dimension."""
        operand = self._any(lambda s: s.rank > 0 and s.dtype is not PRED and not s.dtype.is_complex)
        place, element = self._place(operand.shape), operand.shape.dtype
        places = self.builder.iota(shape=operand.shape.with_dtype(S32), iota_dimension=place)
        starts = self._number(-4 if may_be_negative(element) else 0, element), self._number(0, S32)
        made = self.builder.reduce(
            operand, places, *starts, dimensions=(place,), to_apply=_first_of_largest(element)
        )
        number = self.choose.randint(0, 1)
        part = self.builder.get_tuple_element(made, index=number)
        largest = max(4, self.bounds[operand]), operand.shape.static_dims[place]
        return self._noted(part, largest[number])

    def _window_fold(self) -> Instruction:
        operand = self._any(lambda s: s.rank > 0 and 0 not in s.dims)
        name, start = self._reducer(operand.shape.dtype)
        window = tuple(self._window_of(size) for size in operand.shape.static_dims)
        made = self.builder.reduce_window(
            operand,
            self._number(start, operand.shape.dtype),
            window=window,
            to_apply=scalar_computation(name, operand.shape.dtype),
        )
        return self._noted(
            made, self._folded(name, operand, start, math.prod(w.size for w in window))
        )

    def _window_of(self, size: int) -> WindowDimension:
        choose = self.choose
        if choose.random() < 0.4:
            return WindowDimension(1)
        if choose.random() < 0.2:  # cumulative
            return WindowDimension(size, low=size - 1)
        window = choose.randint(1, min(size, 4))
        return WindowDimension(
            window,
            stride=choose.randint(1, 3),
            low=choose.randint(0, 2),
            high=choose.randint(0, 2),
            base_dilation=choose.choice((1, 1, 1, 2)),
            window_dilation=choose.choice((1, 1, 2)) if 2 * window <= size else 1,
        )

    def _product(self) -> Instruction:
        lhs = self._any(lambda s: s.rank > 0 and s.dtype is not PRED)
        dims, choose = lhs.shape.static_dims, self.choose
        places = choose.sample(range(len(dims)), len(dims))
        contracted = tuple(places[:1])
        batch = tuple(sorted(places[1:2])) if len(dims) > 2 and choose.random() < 0.5 else ()
        order = [*batch, *contracted, -1]
        choose.shuffle(order)
        sizes = tuple(choose.choice(self.sizes) if p < 0 else dims[p] for p in order)
        rhs = self._like(lhs.shape.with_dims(sizes))
        made = self.builder.dot(
            lhs,
            rhs,
            lhs_batch_dims=batch,
            rhs_batch_dims=tuple(order.index(p) for p in batch),
            lhs_contracting_dims=contracted,
            rhs_contracting_dims=tuple(order.index(p) for p in contracted),
        )
        twice = 2 if lhs.shape.dtype.is_complex else 1
        bound = self.bounds[lhs] * self.bounds[rhs] * dims[contracted[0]] * twice
        return self._noted(made, bound)

    # ---- indexing

    def _take(self) -> Instruction:
        """Return a gather along one or two dimensions, slices of any size."""
        operand = self._any(lambda shape: shape.rank > 0 and 0 not in shape.dims)
        dims, choose = operand.shape.static_dims, self.choose
        mapped = tuple(choose.sample(range(len(dims)), choose.randint(1, min(2, len(dims)))))
        sizes = tuple(1 if p in mapped else choose.randint(1, n) for p, n in enumerate(dims))
        count = choose.choice(self.sizes)
        return self.builder.gather(
            operand,
            self._places((count, len(mapped))),
            offset_dims=tuple(range(1, 1 + len(dims) - len(mapped))),
            collapsed_slice_dims=tuple(sorted(mapped)),
            start_index_map=mapped,
            index_vector_dim=1,
            slice_sizes=sizes,
        )

    def _places(self, dims: tuple[int, ...]) -> Instruction:
        fitting = [v for v in self.pool if v.shape.compatible(Shape.array(S32, dims))]
        if fitting:
            return self.choose.choice(fitting)
        draw = np.random.default_rng(self.choose.getrandbits(32))
        return self._noted(self.builder.constant(draw.integers(-2, 12, dims).astype(np.int32)), 11)

    def _scatter(self) -> Instruction:
        operand = self._any(lambda shape: shape.rank > 0 and 0 not in shape.dims)
        dims, element = operand.shape.static_dims, operand.shape.dtype
        count = self.choose.choice(self.sizes)
        updates = self._like(operand.shape.with_dims((count, *dims[1:])))
        name = "or" if element is PRED else "add"
        made = self.builder.scatter(
            operand,
            self._places((count, 1)),
            updates,
            update_window_dims=tuple(range(1, len(dims))),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            to_apply=scalar_computation(name, element),
        )
        bound = 1 if element is PRED else self.bounds[operand] + count * self.bounds[updates]
        return self._noted(made, bound)

    def _sort(self) -> Instruction:
        operand = self._any(lambda s: s.rank > 0 and s.dtype is not PRED and not s.dtype.is_complex)
        builder = Builder("before")
        pair = [builder.parameter(n, Shape.array(operand.shape.dtype, ())) for n in (0, 1)]
        direction = self.choose.choice(("LT", "GT"))
        before = builder.build(builder.compare(*pair, direction=direction))
        place = self._place(operand.shape)
        return self.builder.sort(operand, dimensions=(place,), to_apply=before, is_stable=True)


def _first_of_largest(element: DType) -> Any:
    """Return the reducer of (value, place) pairs: the larger value, of equal ones the first."""
    builder = Builder("largest")
    types = (element, S32, element, S32)
    a, i, b, j = (builder.parameter(n, Shape.array(t, ())) for n, t in enumerate(types))
    larger = builder.compare(a, b, direction="GT")
    equal = builder.compare(a, b, direction="EQ")
    first = builder.emit("and", equal, builder.compare(i, j, direction="LT"))
    mine = builder.emit("or", larger, first)
    return builder.build(builder.tuple(builder.select(mine, a, b), builder.select(mine, i, j)))
