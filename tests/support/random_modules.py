# SPDX-License-Identifier: Apache-2.0
"""Random valid modules from the op table, each from a seed: for comparing evaluator and backends.

A `Maker` grows a pool of values of one computation: each step picks an op, then operands from the
pool that fit, reshaping the pool's values where the op asks for other shapes. Attributes are made
valid by construction; shape inference then checks them again. Every value is finite in meaning:
divisions, logarithms and roots may still give NaN and infinities, which outputs must agree on.

Example:
    module, inputs = random_module(seed=7)
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from tests.support.random_structured_ops import STRUCTURED

from ingot.formats.hlo_text.opcodes import INGOTS_OWN
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, evaluate
from ingot.hlo.dtype import F32, PRED, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import Trait, table
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import VerifyError

Array = np.ndarray[Any, np.dtype[Any]]
_SIZES = (1, 2, 3, 5, 7, 8)
_ELEMENTS = (F32, F32, F32, S32, PRED)
# Rounding errors before these change the result beyond any tolerance.
_DISCONTINUOUS = frozenset(
    {"ceil", "floor", "round-nearest-afz", "round-nearest-even", "sign", "remainder", "tan",
     "atan2", "is-finite", "sine", "cosine", "power", "log", "rsqrt",
     "log-plus-one", "erf", "exponential", "exponential-minus-one", "divide"}
)  # fmt: skip
# Real XLA runs these only once its front ends have expanded them, and it folds
# count-leading-zeros of a negative constant to -32; tests/ops has them.
_NOT_ON_XLA = frozenset(
    {"acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "count-leading-zeros", "mulhi"}
    | set(INGOTS_OWN)
)
_NOT_ARITHMETIC = frozenset(
    {"convert", "compare", "reduce-precision", "complex", "real", "imag", "stochastic-convert"}
)


def random_module(
    seed: int,
    *,
    steps: int = 12,
    smooth: bool = True,
    sizes: Sequence[int] = _SIZES,
    elements: Sequence[DType] = _ELEMENTS,
    structured: bool = False,
) -> tuple[Module, list[Array]]:
    """Return a module and inputs for it.

    Args:
        seed: the same seed gives the same module and inputs.
        steps: how many ops to add at least.
        smooth: leave out float ops that turn rounding errors into large differences.
        sizes: what dimensions may be.
        elements: element types of parameters and constants.
        structured: with convolutions, windows, sorts, scatters and the like.
    """
    maker = Maker(random.Random(seed), smooth, sizes=sizes, elements=elements)
    maker.structured = structured
    module = maker.module(steps)
    return module, random_inputs(module, seed)


def random_symbolic_module(seed: int, *, steps: int = 12, structured: bool = False) -> Module:
    """Return a module with dimensions of symbolic size `n`, which may be 0, 1, 2 … when it runs."""
    symbol = Dim.symbol("n")
    maker = Maker(random.Random(seed), smooth=True, sizes=(1, 3, 4, symbol, symbol))
    maker.structured = structured
    maker.pool.append(maker.builder.parameter(0, Shape.array(F32, (symbol, 3))))
    return maker.module(steps)


def random_inputs(module: Module, seed: int, sizes: Mapping[str, int] | None = None) -> list[Array]:
    """Return inputs for the entry's parameters: moderate numbers, exact in every float type.

    `sizes` are the values of symbolic sizes.
    """
    generator = np.random.default_rng(seed)
    shapes = [parameter.shape for parameter in module.entry.parameters]
    known = sizes or {}
    return [
        _random_array(generator, shape.with_dims(tuple(evaluate(s, known) for s in shape.dims)))
        for shape in shapes
    ]


def _random_array(generator: np.random.Generator, shape: Shape) -> Array:
    dims, storage = shape.static_dims, shape.dtype.numpy
    if shape.dtype is PRED:
        return generator.integers(0, 2, dims).astype(np.bool_)
    if shape.dtype.is_integer:
        return generator.integers(-9, 10, dims).astype(storage)
    return (generator.integers(-32, 33, dims) / 8).astype(storage)


def _may_be_negative(element: DType) -> bool:
    return element.is_float or (element.is_integer and element.is_signed)


def _too_large(dims: Sequence[int | Dim]) -> bool:
    return math.prod(size for size in dims if isinstance(size, int)) > 1 << 17


class Maker:
    """Grows one computation."""

    def __init__(
        self,
        choose: random.Random,
        smooth: bool,
        depth: int = 0,
        sizes: Sequence[int | Dim] = _SIZES,
        elements: Sequence[DType] = _ELEMENTS,
    ) -> None:
        """Choose by `choose`; control flow holds computations made one `depth` deeper."""
        self.choose = choose
        self.sizes = sizes
        self.elements = elements
        self.smooth = smooth
        self.depth = depth
        self.structured = False
        self.builder = Builder("main")
        self.pool: list[Instruction] = []

    def module(self, steps: int) -> Module:
        """Return a module whose result is a tuple of the values that nobody used."""
        given = len(self.pool)
        for number in range(given, given + self.choose.randint(1, 4)):
            self.pool.append(self.builder.parameter(number, self._shape()))
        self._grow(steps)
        unused = [value for value in self.pool if not value.users] or [self.pool[-1]]
        return Module.of("random", self.builder.build(self.builder.tuple(*unused[-4:])))

    def _grow(self, steps: int) -> None:
        makers: list[Callable[[], Instruction]] = [
            self._unary, self._unary, self._binary, self._binary, self._binary, self._compare,
            self._select, self._clamp, self._convert, self._broadcast, self._reshape,
            self._transpose, self._slice, self._pad, self._concatenate, self._reverse, self._iota,
            self._reduce, self._reduce, self._dot, self._dynamic_slice, self._dynamic_update_slice,
            self._gather, self._constant,
        ]  # fmt: skip
        if self.depth == 0:
            makers += [self._while, self._conditional]
        if self.structured:
            makers += [partial(op, self) for op in STRUCTURED]
        for _ in range(steps):
            self.pool.append(self.choose.choice(makers)())

    # ---- choices

    def _shape(self, element: DType | None = None) -> Shape:
        dims = tuple(self.choose.choice(self.sizes) for _ in range(self.choose.randint(0, 3)))
        while _too_large(dims):
            dims = dims[1:]
        return Shape.array(element or self.choose.choice(self.elements), dims)

    def _any(self, accept: Callable[[Shape], bool] = lambda shape: True) -> Instruction:
        """Return a value of the pool that fits, or a new constant that does."""
        fitting = [value for value in self.pool if accept(value.shape)]
        if fitting:
            return self.choose.choice(fitting[-6:])
        for _ in range(5000):
            shape = self._shape()
            if accept(shape):
                return self._constant_of(shape)
        raise AssertionError("no shape fits")

    def _like(self, shape: Shape) -> Instruction:
        fitting = [value for value in self.pool if value.shape.compatible(shape)]
        return self.choose.choice(fitting) if fitting else self._constant_of(shape)

    def _constant_of(self, shape: Shape) -> Instruction:
        generator = np.random.default_rng(self.choose.getrandbits(32))
        if not shape.is_static:
            scalar = _random_array(generator, shape.with_dims(()))
            return self.builder.full(scalar.item(), shape)
        return self.builder.constant(_random_array(generator, shape))

    def _place(self, shape: Shape) -> int:
        return self.choose.randrange(shape.rank)

    def _index(self) -> Instruction:
        return self.builder.constant(np.int32(self.choose.randint(-2, 9)))

    # ---- elementwise

    def _elementwise(self, arity: int) -> Instruction:
        """Return a use of a random elementwise op that takes the operands, by the op table."""
        names = [
            name
            for name, row in table().items()
            if row.family == "elementwise"
            and row.arity == (arity, arity)
            and row.has(Trait.ELEMENTWISE)
            and name not in _NOT_ON_XLA | _NOT_ARITHMETIC
        ]
        while True:  # until an op takes the operands: there is one for every element type
            name = self.choose.choice(names)
            first = self._any()
            if self.smooth and name in _DISCONTINUOUS and first.shape.dtype.is_float:
                continue
            operands = [first, *(self._like(first.shape) for _ in range(arity - 1))]
            try:
                return self.builder.emit(name, *operands)
            except VerifyError:
                continue  # the op does not take this element type

    def _unary(self) -> Instruction:
        return self._elementwise(1)

    def _binary(self) -> Instruction:
        return self._elementwise(2)

    def _compare(self) -> Instruction:
        # On floats only where no rounding error can come before: on parameters and constants.
        exact = ("parameter", "constant")
        first = self._any(lambda shape: not shape.dtype.is_float)
        if not self.smooth:
            first = self._any()
        elif self.choose.random() < 0.5:
            sources = [v for v in self.pool if v.opcode in exact]
            first = self.choose.choice(sources) if sources else first
        second = self._constant_of(first.shape)
        direction = self.choose.choice(("EQ", "NE", "GE", "GT", "LE", "LT"))
        return self.builder.compare(first, second, direction=direction)

    def _select(self) -> Instruction:
        first = self._any()
        dims = self.choose.choice(((), first.shape.dims))
        predicate = self._like(Shape.array(PRED, dims))
        return self.builder.select(predicate, first, self._like(first.shape))

    def _clamp(self) -> Instruction:
        operand = self._any(lambda shape: shape.dtype is not PRED)
        low = -3 if _may_be_negative(operand.shape.dtype) else 1
        bounds = [self.builder.constant(v, operand.shape.dtype) for v in (low, 4)]
        return self.builder.clamp(bounds[0], operand, bounds[1])

    def _convert(self) -> Instruction:
        target = self.choose.choice((F32, PRED, S32))
        # A float to an integer or pred would show rounding errors.
        operand = self._any(lambda s: target is F32 or not s.dtype.is_float or not self.smooth)
        return self.builder.emit("convert", operand, shape=operand.shape.with_dtype(target))

    def _constant(self) -> Instruction:
        return self._constant_of(self._shape())

    def _iota(self) -> Instruction:
        dims = tuple(self.choose.choice(self.sizes) for _ in range(self.choose.randint(1, 3)))
        while _too_large(dims):
            dims = dims[1:]
        shape = Shape.array(self.choose.choice((F32, S32)), dims)
        return self.builder.iota(shape=shape, iota_dimension=self._place(shape))

    # ---- shaping

    def _broadcast(self) -> Instruction:
        operand = self._any(lambda shape: shape.rank <= 2)
        rank = operand.shape.rank + self.choose.randint(0, 2)
        places = tuple(sorted(self.choose.sample(range(rank), operand.shape.rank)))
        dims = [self.choose.choice(self.sizes) for _ in range(rank)]
        for place, size in zip(places, operand.shape.dims, strict=True):
            dims[place] = size
        if _too_large(dims):
            return operand
        shape = operand.shape.with_dims(tuple(dims))
        return self.builder.broadcast(operand, shape=shape, dimensions=places)

    def _reshape(self) -> Instruction:
        operand = self._any()
        dims = list(operand.shape.dims)
        if len(dims) > 1 and self.choose.random() < 0.5:
            dims[:2] = [dims[0] * dims[1]]
        else:
            dims.insert(self.choose.randint(0, len(dims)), 1)
        return self.builder.reshape(operand, shape=operand.shape.with_dims(tuple(dims)))

    def _transpose(self) -> Instruction:
        operand = self._any()
        order = list(range(operand.shape.rank))
        self.choose.shuffle(order)
        return self.builder.transpose(operand, dimensions=tuple(order))

    def _reverse(self) -> Instruction:
        operand = self._any(lambda shape: shape.rank > 0)
        return self.builder.reverse(operand, dimensions=(self._place(operand.shape),))

    def _slice(self) -> Instruction:
        operand = self._any(lambda shape: shape.rank > 0)
        bounds: list[tuple[int, int | Dim, int]] = []
        for size in operand.shape.dims:
            if not isinstance(size, int):
                bounds.append((0, size, self.choose.randint(1, 3)))
                continue
            start = self.choose.randrange(size) if size else 0
            bounds.append(
                (start, self.choose.randint(min(start + 1, size), size), self.choose.randint(1, 3))
            )
        return self.builder.slice(operand, slice=tuple(bounds))

    def _pad(self) -> Instruction:
        operand = self._any(lambda shape: 0 < shape.rank <= 2)
        value = self._constant_of(Shape.array(operand.shape.dtype, ()))
        padding = tuple(
            (self.choose.randint(-1 if isinstance(size, int) and size > 1 else 0, 2),
             self.choose.randint(0, 2), self.choose.randint(0, 1))
            for size in operand.shape.dims
        )  # fmt: skip
        return self.builder.pad(operand, value, padding=padding)

    def _concatenate(self) -> Instruction:
        first = self._any(lambda shape: shape.rank > 0)
        return self.builder.concatenate(
            first, self._like(first.shape), dimensions=(self._place(first.shape),)
        )

    def _dynamic_slice(self) -> Instruction:
        operand = self._any(lambda shape: 0 < shape.rank <= 2)
        sizes = self._window(operand.shape)
        starts = [self._index() for _ in sizes]
        return self.builder.dynamic_slice(operand, *starts, dynamic_slice_sizes=sizes)

    def _dynamic_update_slice(self) -> Instruction:
        operand = self._any(lambda shape: 0 < shape.rank <= 2)
        sizes = self._window(operand.shape)
        update = self._constant_of(operand.shape.with_dims(sizes))
        return self.builder.dynamic_update_slice(operand, update, *(self._index() for _ in sizes))

    def _window(self, shape: Shape) -> tuple[int | Dim, ...]:
        return tuple(
            self.choose.randint(min(1, size), size) if isinstance(size, int) else size
            for size in shape.dims
        )

    # ---- reduction, contraction, indexing

    def _reduce(self) -> Instruction:
        operand = self._any(lambda shape: shape.rank > 0)
        element = operand.shape.dtype
        names = ("and", "or") if element is PRED else ("add", "maximum", "minimum")
        name = self.choose.choice(names)
        lowest = -100 if _may_be_negative(element) else 0
        starts = {"and": True, "or": False, "add": 0, "maximum": lowest, "minimum": 100}
        count = self.choose.randint(1, operand.shape.rank)
        places = tuple(sorted(self.choose.sample(range(operand.shape.rank), count)))
        start = self.builder.constant(starts[name], element)
        reducer = scalar_computation(name, element)
        return self.builder.reduce(operand, start, dimensions=places, to_apply=reducer)

    def _dot(self) -> Instruction:
        if F32 not in self.elements:
            return self._binary()
        lhs = self._any(lambda shape: shape.dtype is F32 and shape.rank > 0)
        columns = self.choose.choice(self.sizes)
        if _too_large((*lhs.shape.dims, columns)):
            columns = 1
        rhs = self._constant_of(Shape.array(F32, (lhs.shape.dims[-1], columns)))
        return self.builder.dot(
            lhs, rhs, lhs_contracting_dims=(lhs.shape.rank - 1,), rhs_contracting_dims=(0,)
        )

    def _gather(self) -> Instruction:
        operand = self._any(lambda shape: shape.rank > 0 and shape.dims[0] in range(1, 1 << 20))
        dims = operand.shape.dims
        count = self.choose.choice(self.sizes)
        if _too_large((count, *dims[1:])):
            count = 1
        indices = self._constant_of(Shape.array(S32, (count,)))
        sizes = (1, *dims[1:])
        return self.builder.gather(
            operand,
            indices,
            offset_dims=tuple(range(1, len(dims))),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=1,
            slice_sizes=sizes,
        )

    # ---- control

    def _branch(self, name: str, shape: Shape) -> Computation:
        """Return a computation from a value to a value of its shape."""
        inner = Maker(self.choose, self.smooth, self.depth + 1, self.sizes, self.elements)
        inner.structured = self.structured
        inner.builder = Builder(name)
        parameter = inner.builder.parameter(0, shape)
        inner.pool = [parameter]
        inner._grow(2)
        fitting = [v for v in inner.pool if v.shape.compatible(shape)]
        return inner.builder.build(fitting[-1])

    def _conditional(self) -> Instruction:
        operand = self._any()
        predicate = self._like(Shape.array(PRED, ()))
        branches = tuple(self._branch(name, operand.shape) for name in ("yes", "no"))
        return self.builder.conditional(predicate, operand, operand, branch_computations=branches)

    def _while(self) -> Instruction:
        """Return a value after a few rounds of a random body."""
        operand = self._any()
        counter = Shape.array(S32, ())
        state = Shape.tuple((counter, operand.shape))
        condition = Builder("condition")
        number = condition.get_tuple_element(condition.parameter(0, state), index=0)
        limit = condition.constant(np.int32(self.choose.randint(0, 3)))
        body = Builder("body")
        given = body.parameter(0, state)
        count = body.add(body.get_tuple_element(given, index=0), body.constant(np.int32(1)))
        value = body.get_tuple_element(given, index=1)
        called = body.call(value, to_apply=self._branch("step", operand.shape))
        loop = self.builder.emit(
            "while",
            self.builder.tuple(self.builder.constant(np.int32(0)), operand),
            condition=condition.build(condition.compare(number, limit, direction="LT")),
            body=body.build(body.tuple(count, called)),
        )
        return self.builder.get_tuple_element(loop, index=1)
