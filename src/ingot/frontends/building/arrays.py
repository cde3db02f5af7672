# SPDX-License-Identifier: Apache-2.0
"""`ArrayBuilder`: the HLO builder with the idioms that the rules of every front end use.

NumPy broadcasting, constants like another value, reductions over axes with their reducer, sizes as
run-time numbers, loops. A rule never spells `broadcast` dimensions itself.

Invariant: symbolic sizes are taken to differ from 1 unless they are the number 1 (front ends
specialise a function for a size of 1), so which dimensions are expanded is known at compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from ingot.hlo import dim as dim_math
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Atom, Dim
from ingot.hlo.dtype import PRED, S32, S64, DType, Kind, wider
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError, UnsupportedError

Size = int | Dim
Sizes = tuple[Size, ...]
SizeSource = Callable[[str], Instruction]
Reducers = dict[tuple[str, str], Computation]


class ArrayBuilder(Builder):
    """Builds one computation of a program."""

    def __init__(self, name: str, symbol: SizeSource, reducers: Reducers) -> None:
        """Build `name`.

        Args:
            name: the name of the computation.
            symbol: gives the run-time value of a named size as `s64[]`.
            reducers: the small computations of the program, which all its builders share.
        """
        super().__init__(name)
        self.reducers = reducers
        self._symbol = symbol
        self._seen: Sequence[Instruction] = ()

    def reducer(self, opcode: str, element: DType) -> Computation:
        """Return the scalar computation of a binary opcode, one per element type."""
        key = (opcode, element.name)
        if key not in self.reducers:
            self.reducers[key] = scalar_computation(opcode, element)
        return self.reducers[key]

    def same(self, left: Size, right: Size, *, broadcasts: bool = False) -> bool:
        """Whether two sizes are equal, as far as compile time can tell.

        Front ends that learn sizes override this; `broadcasts` says that 1 would do as well.
        """
        del broadcasts
        return left == right

    # ---- sizes

    def size(self, size: Size) -> Instruction:
        """Return a size as a run-time `s64[]`."""
        if isinstance(size, int):
            return self.constant(size, S64)
        for value in self._seen:
            if size in value.shape.dims:
                dimension = value.shape.dims.index(size)
                found = self.emit("get-dimension-size", value, dimensions=(dimension,))
                return self.convert_to(found, S64)
        terms = [self._term(key, factor) for key, factor in size.terms]
        total = terms[0]
        for term in terms[1:]:
            total = self.add(total, term)
        return total

    def _term(self, atoms: tuple[Atom, ...], factor: int) -> Instruction:
        factors = [self._atom(atom) for atom in atoms]
        if factor != 1 or not factors:
            factors.append(self.constant(factor, S64))
        product = factors[0]
        for other in factors[1:]:
            product = self.multiply(product, other)
        return product

    def _atom(self, atom: Atom) -> Instruction:
        if not atom.function:
            return self._symbol(atom.text)
        # Sizes are not negative, so truncating division and remainder are floor's.
        opcode = {"floordiv": "divide", "mod": "remainder", "max": "maximum", "min": "minimum"}
        return self.emit(opcode[atom.function], self.size(atom.left), self.size(atom.right))

    # ---- constants

    def scalar(self, value: Any, element: DType) -> Instruction:
        """Return a scalar constant, or the run-time value of a symbolic size."""
        if isinstance(value, Dim):
            return self.convert_to(self.size(value), element)
        try:
            found = np.asarray(value).astype(element.numpy)
        except OverflowError:  # A product of sizes that is beyond every integer type.
            message = f"{value} is not in the range of {element.name}"
            raise UnsupportedError(message, code="INGOT0312") from None
        return self.constant(found, element)

    def like(self, value: Any, shape: Shape) -> Instruction:
        """Return `value` in every element of an array of `shape`'s type and dimensions."""
        return self.spread(self.scalar(value, shape.dtype), shape.dims)

    def zeros(self, shape: Shape) -> Instruction:
        """Return zeros of `shape`'s type and dimensions."""
        return self.like(0, shape)

    def iota_of(self, element: DType, dims: Sizes, axis: int) -> Instruction:
        """Return 0, 1, 2 … along `axis`."""
        return self.emit("iota", shape=Shape.array(element, dims), iota_dimension=axis)

    # ---- broadcasting

    def spread(
        self, operand: Instruction, dims: Sizes, dimensions: tuple[int, ...] | None = None
    ) -> Instruction:
        """Broadcast to `dims`; dimension i becomes `dimensions[i]` (default: the last ones).

        Operand dimensions of size 1 are expanded where the target's size is another.
        """
        if dimensions is None:
            dimensions = tuple(range(len(dims) - operand.shape.rank, len(dims)))
        pairs = list(zip(operand.shape.dims, dimensions, strict=True))
        kept = [(size, dim) for size, dim in pairs if size != 1 or dims[dim] == 1]
        narrowed = self.reshape_to(operand, tuple(size for size, _ in kept))
        if narrowed.shape.dims == dims:
            return narrowed
        shape = operand.shape.with_dims(dims)
        return self.emit(
            "broadcast", narrowed, shape=shape, dimensions=tuple(dim for _, dim in kept)
        )

    def normalized(
        self,
        x: Instruction,
        average: Instruction,
        inverse: Instruction,
        axes: tuple[int, ...],
    ) -> Instruction:
        """Return `(x - average) * inverse`; the dimensions of both statistics are `axes` of x."""
        centred = self.subtract(x, self.spread(average, x.shape.dims, axes))
        return self.multiply(centred, self.spread(inverse, x.shape.dims, axes))

    def broadcast_dims(self, *shapes: Sizes) -> Sizes | None:
        """Return the dimensions that NumPy broadcasting gives, or None when they do not fit."""
        rank = max(len(dims) for dims in shapes)
        result: list[Size] = [1] * rank
        for dims in shapes:
            for dim, size in enumerate(dims, rank - len(dims)):
                if size == 1:
                    continue
                if result[dim] != 1 and not self.same(result[dim], size, broadcasts=True):
                    return None
                result[dim] = size
        return tuple(result)

    def together(self, *operands: Instruction) -> tuple[Instruction, ...]:
        """Return the operands broadcast to their common dimensions.

        Raises:
            UnsupportedError: their shapes do not fit.
        """
        dims = self.broadcast_dims(*(operand.shape.dims for operand in operands))
        if dims is None:
            shapes = " and ".join(
                operand.shape.to_string(with_layout=False) for operand in operands
            )
            raise UnsupportedError(
                f"shapes {shapes} cannot be broadcast together",
                code="INGOT0312",
                hint="make the sizes equal, or 1 where one side is repeated",
            )
        return tuple(self.spread(operand, dims) for operand in operands)

    # ---- arithmetic idioms

    def binary(self, opcode: str, left: Instruction, right: Instruction | float) -> Instruction:
        """Emit a binary opcode with broadcasting; a number becomes a constant."""
        other = right if isinstance(right, Instruction) else self.like(right, left.shape)
        return self.emit(opcode, *self.together(left, other))

    def compared(
        self, direction: str, left: Instruction, right: Instruction | float
    ) -> Instruction:
        """Emit `compare` with broadcasting; a number becomes a constant."""
        other = right if isinstance(right, Instruction) else self.like(right, left.shape)
        return self.emit("compare", *self.together(left, other), direction=direction)

    def to_pred(self, operand: Instruction) -> Instruction:
        """Return an array as pred: numbers are true unless 0."""
        return operand if operand.shape.dtype is PRED else self.compared("NE", operand, 0)

    def reduced(
        self, opcode: str, operand: Instruction, axes: Sequence[int], *, keep: bool = False
    ) -> Instruction:
        """Fold `axes` with a binary opcode, starting at its neutral element."""
        element = operand.shape.dtype
        start = self.constant(neutral(opcode, element), element)
        made = operand
        if axes:
            made = self.emit(
                "reduce",
                operand,
                start,
                dimensions=tuple(sorted(axes)),
                to_apply=self.reducer(opcode, element),
            )
        if not keep:
            return made
        dims = tuple(1 if axis in axes else size for axis, size in enumerate(operand.shape.dims))
        return self.reshape_to(made, dims)

    def summed(
        self, operand: Instruction, axes: Sequence[int], *, keep: bool = False
    ) -> Instruction:
        """Sum over `axes`; halves are summed in f32."""
        element = operand.shape.dtype
        wide = wider(element)
        total = self.reduced("add", self.convert_to(operand, wide), axes, keep=keep)
        return self.convert_to(total, element)

    def transposed(self, operand: Instruction, order: Sequence[int]) -> Instruction:
        """Permute dimensions; nothing for the identity."""
        if list(order) == list(range(operand.shape.rank)):
            return operand
        return self.emit("transpose", operand, dimensions=tuple(order))

    def sliced(
        self, operand: Instruction, axis: int, start: Size, limit: Size, stride: int = 1
    ) -> Instruction:
        """Take `[start:limit:stride]` of one axis."""
        bounds = tuple(
            (start, limit, stride) if dim == axis else (0, size, 1)
            for dim, size in enumerate(operand.shape.dims)
        )
        if bounds[axis] == (0, operand.shape.dims[axis], 1):
            return operand
        return self.emit("slice", operand, slice=bounds)

    def cut(self, operand: Instruction, dims: Sizes) -> Instruction:
        """Take the first elements of each axis, as many as `dims` says."""
        for axis, size in enumerate(dims):
            operand = self.sliced(operand, axis, 0, size)
        return operand

    def concatenated(self, parts: Sequence[Instruction], axis: int) -> Instruction:
        """Concatenate along `axis`."""
        return parts[0] if len(parts) == 1 else self.emit("concatenate", *parts, dimensions=(axis,))

    def padded(
        self, operand: Instruction, axis: int, low: Size, high: Size, value: Instruction
    ) -> Instruction:
        """Put `value` before and after along one axis; sizes may be symbolic, not negative."""
        if low == 0 and high == 0:
            return operand
        if isinstance(low, int) and isinstance(high, int):
            padding = tuple(
                (low, high, 0) if dim == axis else (0, 0, 0) for dim in range(operand.shape.rank)
            )
            return self.emit("pad", operand, value, padding=padding)
        dims = operand.shape.dims
        sides = [
            self.spread(value, (*dims[:axis], size, *dims[axis + 1 :])) for size in (low, high)
        ]
        return self.concatenated([sides[0], operand, sides[1]], axis)

    def shifted(self, operand: Instruction, axis: int, by: int, value: Instruction) -> Instruction:
        """Move elements `by` positions along an axis, back if negative; `value` fills the gap."""
        size = operand.shape.dims[axis]
        if by >= 0:
            return self.sliced(self.padded(operand, axis, by, 0, value), axis, 0, size)
        return self.sliced(self.padded(operand, axis, 0, -by, value), axis, -by, size - by)

    def region(self, name: str, shapes: Sequence[Shape]) -> tuple[Self, list[Instruction]]:
        """Return the builder and parameters of a computation that captures nothing of this one."""
        inner = self.nested(name)
        return inner, [inner.parameter(n, shape) for n, shape in enumerate(shapes)]

    def nested(self, name: str) -> Self:
        """Return the builder of a computation in which no named size is known."""
        return type(self)(name, no_symbol, self.reducers)

    def _size_of_seen(self, name: str) -> Instruction:
        size = Dim.symbol(name)
        known = any(size in value.shape.dims for value in self._seen)
        return self.size(size) if known else no_symbol(name)

    def loop(
        self,
        state: Sequence[Instruction],
        condition: Callable[[Self, list[Instruction]], Instruction],
        body: Callable[[Self, list[Instruction]], Sequence[Instruction]],
    ) -> list[Instruction]:
        """Emit `while` over the values of `state`; return their last values."""
        start = self.tuple(*state)
        computations: list[Computation] = []
        for name, trace in (("condition", condition), ("body", body)):
            inner, (packed,) = self.region(name, [start.shape])
            values = [inner.element_of(packed, n) for n in range(len(state))]
            # Sizes of the values are what it knows of sizes.
            inner._seen, inner._symbol = values, inner._size_of_seen
            result = trace(inner, values)
            root = result if isinstance(result, Instruction) else inner.tuple(*result)
            computations.append(inner.build(root))
        made = self.emit("while", start, condition=computations[0], body=computations[1])
        return [self.element_of(made, n) for n in range(len(state))]


def counts_up(b: ArrayBuilder, state: Sequence[Instruction]) -> Instruction:
    """Whether a loop continues: the first value of its state counts up to the second."""
    return b.compare(state[0], state[1], direction="LT")


def no_symbol(name: str) -> Instruction:
    """Refuse: no named size is known in the computation."""
    raise InternalError(f"the size {name} is not known inside this computation")


def neutral(opcode: str, element: DType) -> Any:
    """Return the neutral element of a reducer."""
    simple = {"add": 0, "or": 0, "xor": 0, "multiply": 1, "and": -1}
    if opcode in simple:
        value = simple[opcode]
        if value == -1:
            return True if element.kind is Kind.PRED else ~np.zeros((), element.numpy)
        return np.asarray(value).astype(element.numpy)
    lowest = opcode == "maximum"
    if element.kind is Kind.PRED:
        return not lowest
    if element.is_float:
        return np.asarray(-np.inf if lowest else np.inf).astype(element.numpy)
    limits = np.iinfo(element.numpy)
    return limits.min if lowest else limits.max


def index_type(dims: Sizes) -> DType:
    """Return the type for run-time indices into `dims`: s32 unless a size is larger."""
    total = dim_math.product(dims)
    return S64 if isinstance(total, int) and total >= 2**31 else S32
