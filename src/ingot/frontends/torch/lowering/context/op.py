# SPDX-License-Identifier: Apache-2.0
"""`Op`: the context of an ATen op's rule, besides the op's arguments.

It has the builder, the result's sizes and element type as PyTorch computed them, PyTorch's type
promotion, and the error for arguments that a rule does not support.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from ingot.frontends.torch.fx.nodes import value_of
from ingot.frontends.torch.fx.sizes import Size, Sizes, size_of, sizes_of
from ingot.frontends.torch.fx.types import element_of, torch_type
from ingot.frontends.torch.lowering.context.bounds import greatest_value
from ingot.frontends.torch.lowering.context.builder import GraphBuilder
from ingot.frontends.torch.lowering.context.numbers import RunTimeNumber
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType, Kind
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import UnsupportedError

Number = bool | int | float | complex
Scalar = Number | Dim | RunTimeNumber
"""A `Scalar` of PyTorch's schemas: a `SymInt` is a `Dim`, a `SymFloat` a run-time number."""
Operand = Instruction | Scalar

Rule = Callable[..., Any]
"""`rule(op, *arguments)`: returns the value of the result, or a tuple of several."""

_CATEGORIES = {Kind.PRED: 0, Kind.SIGNED: 1, Kind.UNSIGNED: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


class Op:
    """One node of the graph."""

    __slots__ = ("b", "inlined", "node", "val")
    inlined: Callable[[GraphBuilder, Any, Sequence[Any]], list[Any]]
    """Emits the body of a higher-order op into a builder: see `Walk.inlined`."""

    def __init__(self, node: Any, b: GraphBuilder) -> None:
        """Read `node`, an `fx.Node` that calls an op."""
        self.node = node
        self.b = b
        self.val: Any = node.meta.get("val")

    # ---- the result, as PyTorch computed it

    @property
    def dims(self) -> Sizes:
        """The sizes of the result."""
        return sizes_of(self.val.shape)

    @property
    def dtype(self) -> DType:
        """The element type of the result."""
        return element_of(self.val.dtype)

    @property
    def shape(self) -> Shape:
        """Sizes and element type of the result."""
        return Shape.array(self.dtype, self.dims)

    def shape_of(self, number: int) -> Shape:
        """Return sizes and element type of one of several results."""
        val = self.val[number]
        return Shape.array(element_of(val.dtype), sizes_of(val.shape))

    def is_used(self, number: int) -> bool:
        """Whether the graph uses one of several results."""
        return any(
            user.target is not operator.getitem or user.args[1] == number
            for user in self.node.users
        )

    # ---- arguments

    def scalar(self, value: Scalar, element: DType) -> Instruction:
        """Return a number of the schema as a constant; a size as its run-time value.

        Integers that `element` cannot hold wrap, as in PyTorch.
        """
        if isinstance(value, RunTimeNumber):
            return self.b.convert_to(value.value, element)
        if isinstance(value, Dim):
            return self.b.scalar(value, element)
        if element.kind in (Kind.SIGNED, Kind.UNSIGNED) and isinstance(value, int):
            value = int(value) & ((1 << element.bits) - 1)
            if element.kind is Kind.SIGNED and value >> (element.bits - 1):
                value -= 1 << element.bits
        return self.b.scalar(value, element)

    def scalar_like(self, value: Scalar, tensor: Instruction) -> Instruction:
        """Return a number of the schema with the sizes and element type of a tensor."""
        return self.b.spread(self.scalar(value, tensor.shape.dtype), tensor.shape.dims)

    def operand(self, value: Operand, element: DType) -> Instruction:
        """Return a tensor or number as a tensor of type `element`; numbers have rank 0."""
        if isinstance(value, Instruction):
            return self.b.convert_to(value, element)
        return self.scalar(value, element)

    def together(self, *values: Operand, element: DType | None = None) -> list[Instruction]:
        """Return operands in one element type and broadcast to the sizes of the result.

        Args:
            values: tensors and numbers.
            element: the type to compute in; default: the type that PyTorch promotes them to.
        """
        kind = element or self.promoted(*values)
        dims = self.dims
        return [self.b.spread(self.operand(value, kind), dims) for value in values]

    def promoted(self, *values: Operand) -> DType:
        """Return the type that PyTorch promotes tensors and numbers to (`torch.result_type`)."""
        return element_of(promoted_type(values))

    def axis(self, dim: int, rank: int) -> int:
        """Return a dimension of an array of `rank` dimensions counted from the front."""
        return dim % max(rank, 1)

    def from_front(self, index: Size, axis: int, argument: int) -> Size:
        """Return an index along an axis of the first operand, counted from the front.

        A negative one counts from the end, and is 0 if it is before the first element. For a symbol
        PyTorch has decided that when it traced, and has a guard that keeps it so.

        Args:
            index: the index.
            axis: the axis.
            argument: which argument of the op it is.
        """
        args = self.node.args
        size = value_of(args[0]).shape[axis]
        given, extent = _hint(value_of(args[argument]) if argument < len(args) else 0), _hint(size)
        if given is None or given >= 0:
            return index
        return 0 if extent is not None and given + extent < 0 else index + size_of(size)

    def axes(self, dims: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
        """Return dimensions to reduce, counted from the front; none or an empty list: all."""
        if dims is None or dims == []:
            return tuple(range(rank))
        if rank == 0:
            return ()
        each = [dims] if isinstance(dims, int) else dims
        return tuple(sorted({dim % rank for dim in each}))

    def known(self, value: Size, what: str) -> int:
        """Return a size that must be known at compile time; `what` names it in the error."""
        if isinstance(value, int):
            return value
        raise self.error(f"{what} is the symbolic size {value}", "mark the dimension as static")

    def at_most(self, value: Size, what: str) -> int:
        """Return a known size, or the bound of a symbolic one; `what` names it in the error."""
        most = greatest_value(value)
        return self.known(value, what) if most is None else most

    def error(self, problem: str, hint: str = "") -> UnsupportedError:
        """Return the error for arguments that the rule does not support."""
        return UnsupportedError(
            f"{self.node.target}: {problem}",
            code="INGOT0372",
            op_type=str(self.node.target),
            op_name=self.node.name,
            hint=hint,
        )


def _hint(value: Any) -> int | None:
    """Return a number, or what a symbolic size was when it was traced; None if data decides it."""
    return cast("Any", value).node.hint if isinstance(value, torch.SymInt) else value


def promoted_type(values: Sequence[Operand]) -> torch.dtype:
    """Return PyTorch's promotion of tensors and numbers.

    Tensors with dimensions decide, then those without, then numbers; a later class only counts if
    its category (bool, integer, float, complex) is higher.
    """
    classes: list[list[torch.dtype]] = [[], [], []]
    for value in values:
        if isinstance(value, Instruction):
            classes[0 if value.shape.rank else 1].append(torch_type(value.shape.dtype))
        else:
            classes[2].append(_type_of_number(value))
    found: torch.dtype | None = None
    for kinds in classes:
        joined: torch.dtype | None = None
        for kind in kinds:
            joined = kind if joined is None else torch.promote_types(joined, kind)
        if joined is None:
            continue
        if found is None:
            found = joined
        elif _category(joined) > _category(found):
            # A float number with a complex tensor, or the reverse, keeps the wider part.
            found = torch.promote_types(found, joined) if found.is_floating_point else joined
    assert found is not None
    return found


def _category(kind: torch.dtype) -> int:
    return _CATEGORIES[element_of(kind).kind]


def _type_of_number(value: Scalar) -> torch.dtype:
    if isinstance(value, bool):
        return torch.bool
    if isinstance(value, float | RunTimeNumber):
        return torch.get_default_dtype()
    if isinstance(value, complex):
        return torch.complex64 if torch.get_default_dtype() != torch.float64 else torch.complex128
    return torch.int64
