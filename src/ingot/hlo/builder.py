# SPDX-License-Identifier: Apache-2.0
"""Builders: computations written as Python calls, one method per opcode of the op table.

`b.reduce_window(...)` is opcode `reduce-window`; attributes are keyword arguments named as in HLO
text; `shape=` gives the result shape of ops that cannot infer it; `and_`, `or_`, `not_` stand for
the opcodes that are Python keywords. Shapes may be written as text (`"f32[2,3]"`). An operand may
be a number: of an elementwise op in each element (`b.add(x, 1)`), else a scalar
(`b.pad(x, 0, ...)`), of the type of the last operand that is none.

Example:
    >>> b = Builder("f")
    >>> x = b.parameter(0, "f32[4]")
    >>> y = b.exponential(b.multiply(x, x))
    >>> print(y)
    %exponential = f32[4]{0} exponential(%multiply)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S32, DType, dtype
from ingot.hlo.instruction import NO_METADATA, Instruction, Metadata
from ingot.hlo.literal import Literal
from ingot.hlo.opdef import NO_ATTRIBUTES, NoAttributes, Trait, find
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import VerifyError
from ingot.support.regex import regex

Operand = Instruction | int | float
"""An operand: an instruction, or a number that becomes a constant."""

_SIMPLE_SHAPE = regex(r"(\w+)\[([^\]]*)\]$")


def shape_of(text: str | Shape) -> Shape:
    """Return the array shape that `text` describes, such as `f32[2,?n]`; a shape is returned as is.

    Raises:
        VerifyError: INGOT0209 `text` is no array shape, or INGOT0202 its element type is unknown.
    """
    if isinstance(text, Shape):
        return text
    match = _SIMPLE_SHAPE.match(text)
    if match is None:
        raise VerifyError(f"not an array shape: '{text}'", code="INGOT0209")
    sizes = [part.strip() for part in match.group(2).split(",") if part.strip()]
    dims = tuple(Dim.symbol(s[1:]) if s.startswith("?") else int(s) for s in sizes)
    return Shape.array(match.group(1), dims)


class Builder:
    """Adds instructions to one computation."""

    def __init__(self, name: str | Computation, metadata: Metadata = NO_METADATA) -> None:
        """Build a new computation called `name`, or add to an existing one."""
        self.computation = Computation(name) if isinstance(name, str) else name
        self.metadata = metadata

    def emit(
        self,
        opcode: str,
        *operands: Instruction,
        shape: Shape | str | None = None,
        name: str = "",
        **attributes: Any,
    ) -> Instruction:
        """Add an instruction by opcode; raises VerifyError when it breaks a constraint."""
        definition = find(opcode)
        if definition.attributes is NoAttributes and not attributes:
            values = NO_ATTRIBUTES
        else:
            try:
                values = definition.attributes(**attributes)
            except TypeError as error:
                raise VerifyError(f"attributes of {opcode}: {error}", code="INGOT0211") from error
        return self.computation.add(
            opcode,
            operands,
            values,
            shape=shape_of(shape) if shape is not None else None,
            name=name,
            metadata=self.metadata,
        )

    def __getattr__(self, method: str) -> Callable[..., Instruction]:
        """Return the builder method of an opcode."""
        if method.startswith("__"):
            raise AttributeError(method)
        opcode = method.rstrip("_").replace("_", "-")

        def call(*operands: Operand, **keywords: Any) -> Instruction:
            return self.emit(opcode, *self._made_of(opcode, operands), **keywords)

        return call

    def _made_of(self, opcode: str, operands: Sequence[Operand]) -> Sequence[Instruction]:
        """Return operands with constants for numbers."""
        arrays = [one for one in operands if isinstance(one, Instruction)]
        if len(arrays) == len(operands):
            return arrays
        like = arrays[-1].shape
        shape = like if find(opcode).has(Trait.ELEMENTWISE) else like.with_dims(())
        return [one if isinstance(one, Instruction) else self.full(one, shape) for one in operands]

    def parameter(self, number: int, shape: Shape | str, name: str = "") -> Instruction:
        """Add parameter `number`."""
        return self.emit("parameter", shape=shape, name=name or f"p{number}", number=number)

    def parameter_like(self, source: Instruction) -> Instruction:
        """Add the next parameter, with the shape and name of `source`."""
        taken, definition = self.computation, find("parameter")
        attributes = definition.attributes(len(taken.parameters))
        name = taken.fresh_name(source.name)
        return taken.insert(Instruction(name, definition, (), source.shape, attributes))

    def constant(self, value: Any, element: str | DType | None = None) -> Instruction:
        """Add a constant from a Literal, NumPy array, number or nested list."""
        literal = value if isinstance(value, Literal) else Literal.of(value, element)
        return self.emit("constant", shape=literal.shape, literal=literal)

    def full(self, value: Any, like: Shape) -> Instruction:
        """Add a scalar constant broadcast to the dimensions of `like`."""
        return self.broadcast_to(self.constant(value, like.dtype), like.dims)

    def broadcast_to(
        self,
        operand: Instruction,
        dims: tuple[int | Dim, ...],
        dimensions: tuple[int, ...] | None = None,
    ) -> Instruction:
        """Add `broadcast`; operand dimension i becomes `dimensions[i]` (default: the last ones)."""
        if operand.shape.dims == tuple(dims):
            return operand
        if dimensions is None:
            dimensions = tuple(range(len(dims) - operand.shape.rank, len(dims)))
        shape = operand.shape.with_dims(tuple(dims))
        return self.emit("broadcast", operand, shape=shape, dimensions=dimensions)

    def broadcast_in_order(
        self, operand: Instruction, dims: tuple[int | Dim, ...], dimensions: tuple[int, ...]
    ) -> Instruction:
        """Return a broadcast to `dims`, of a transpose where `dimensions` do not ascend.

        Args:
            operand: what is broadcast.
            dims: the result's.
            dimensions: the result's dimension of each dimension of the operand, in any order.
        """
        order = tuple(sorted(range(len(dimensions)), key=dimensions.__getitem__))
        if order != tuple(range(len(order))):
            operand = self.transpose(operand, dimensions=order)
        return self.broadcast_to(operand, dims, tuple(sorted(dimensions)))

    def entry_of(self, table: Instruction, index: Instruction) -> Instruction:
        """Return the element at `index` of a vector, as a scalar."""
        return self.reshape_to(
            self.emit("dynamic-slice", table, index, dynamic_slice_sizes=(1,)), ()
        )

    def slice_along(
        self, operand: Instruction, axis: int, begin: int | Dim, limit: int | Dim, step: int = 1
    ) -> Instruction:
        """Return every `step`-th element from `begin` to `limit` along dimension `axis`."""
        box: list[tuple[int | Dim, int | Dim, int]] = [(0, size, 1) for size in operand.shape.dims]
        if box[axis] == (begin, limit, step):
            return operand
        box[axis] = (begin, limit, step)
        return self.emit("slice", operand, slice=tuple(box))

    def leading(self, operand: Instruction, dims: tuple[int | Dim, ...]) -> Instruction:
        """Return the first elements along each dimension, as many as `dims` says."""
        if operand.shape.dims == dims:
            return operand
        return self.emit("slice", operand, slice=tuple((0, size, 1) for size in dims))

    def pad_along(
        self,
        operand: Instruction,
        axis: int,
        padding: tuple[int, int, int],
        fill: Instruction | None = None,
    ) -> Instruction:
        """Pad with `fill` (a scalar; zero if None) along dimension `axis`.

        `padding` has the numbers of elements before, behind and between the array's own.
        """
        paddings = [(0, 0, 0)] * operand.shape.rank
        paddings[axis] = padding
        scalar = self.constant(0, operand.shape.dtype) if fill is None else fill
        return self.emit("pad", operand, scalar, padding=tuple(paddings))

    def index_along(
        self, dims: tuple[int | Dim, ...], axis: int, element: str | DType = S32
    ) -> Instruction:
        """Return the index along dimension `axis` of each element of an array of `dims`."""
        return self.emit("iota", shape=Shape.array(element, dims), iota_dimension=axis)

    def slice_at(
        self, operand: Instruction, axis: int, start: Instruction, size: int | Dim
    ) -> Instruction:
        """Return `size` elements along dimension `axis` from a scalar `start` on."""
        sizes = operand.shape.with_dim(axis, size).dims
        starts = self._starts(operand, axis, start)
        return self.emit("dynamic-slice", operand, *starts, dynamic_slice_sizes=sizes)

    def update_at(
        self, operand: Instruction, update: Instruction, axis: int, start: Instruction
    ) -> Instruction:
        """Return `operand` with `update` from a scalar `start` on along dimension `axis`."""
        starts = self._starts(operand, axis, start)
        return self.emit("dynamic-update-slice", operand, update, *starts)

    def _starts(self, operand: Instruction, axis: int, start: Instruction) -> list[Instruction]:
        starts = [self.constant(0, start.shape.dtype)] * operand.shape.rank
        starts[axis] = start
        return starts

    def reshape_to(self, operand: Instruction, dims: tuple[int | Dim, ...]) -> Instruction:
        """Add `reshape` to `dims`, or return the operand when it already has them."""
        if operand.shape.dims == tuple(dims):
            return operand
        return self.emit("reshape", operand, shape=operand.shape.with_dims(tuple(dims)))

    def convert_to(self, operand: Instruction, element: str | DType) -> Instruction:
        """Add `convert` to an element type, or return the operand when it already has it."""
        if operand.shape.dtype is dtype(element):
            return operand
        return self.emit("convert", operand, shape=operand.shape.with_dtype(element))

    def reinterpret(self, operand: Instruction, shape: Shape) -> Instruction:
        """Add ops that reinterpret the bits of real numbers as real numbers of another width.

        Args:
            operand: any dimensions.
            shape: real numbers of any width with the same total number of bits.
        """
        have, want = operand.shape.dtype.bits, shape.dtype.bits
        same = shape
        if have > want:
            same = shape.with_dims((*operand.shape.dims, have // want))
        elif have < want:
            operand = self.reshape_to(operand, (*shape.dims, want // have))
        else:
            same = shape.with_dims(operand.shape.dims)
        if operand.shape.dtype is not shape.dtype:
            operand = self.emit("bitcast-convert", operand, shape=same)
        return self.reshape_to(operand, shape.dims)

    def element_of(self, operand: Instruction, index: int) -> Instruction:
        """Add `get-tuple-element`, or return the element of a `tuple` instruction."""
        if operand.opcode == "tuple":
            return operand.operands[index]
        return self.emit("get-tuple-element", operand, index=index)

    def elements_of(self, value: Instruction) -> list[Instruction]:
        """Return the elements of a tuple; a value that is no tuple is its own only element."""
        if not value.shape.is_tuple:
            return [value]
        return [self.element_of(value, index) for index in range(len(value.shape.elements))]

    def value_of(self, elements: Sequence[Instruction], shape: Shape) -> Instruction:
        """Return a value of `shape` from its elements, as `elements_of` lists them."""
        return self.emit("tuple", *elements) if shape.is_tuple else elements[0]

    def map_leaves(
        self, value: Instruction, function: Callable[[Instruction], Instruction]
    ) -> Instruction:
        """Return a value with `function` applied to each array or token of it."""
        if not value.shape.is_tuple:
            return function(value)
        elements = self.elements_of(value)
        return self.emit("tuple", *(self.map_leaves(one, function) for one in elements))

    def build(self, root: Instruction) -> Computation:
        """Make `root` the result and return the computation."""
        self.computation.set_root(root)
        return self.computation


def scalar_computation(opcode: str, element: str | DType, name: str = "") -> Computation:
    """Return the two-parameter scalar computation of `opcode`, as reducers use."""
    builder = Builder(name or f"{opcode}_{dtype(element).name}")
    shape = Shape.array(element, ())
    return builder.build(
        builder.emit(opcode, builder.parameter(0, shape, "lhs"), builder.parameter(1, shape, "rhs"))
    )
