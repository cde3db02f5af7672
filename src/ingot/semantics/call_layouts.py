# SPDX-License-Identifier: Apache-2.0
"""Layouts at a custom call: only there is the order of elements in memory visible.

Everywhere else a value is dense row-major, whatever its layout says. A custom call gets buffers in
the layouts of its `operand_layout_constraints` and of its result shape (LAPACK: column-major). The
pass `custom-call-layouts` makes that explicit: it transposes around the call, so that the call
takes and returns dense row-major arrays of permuted dimensions, and notes the order of the
dimensions that the target knows in the instruction's frontend attributes.

A layout here is minor-to-major, as in XLA, of the *logical* dimensions (those the target knows).

Example:
    >>> physical_dims((2, 3, 5), (1, 2, 0))
    (2, 5, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Layout, Shape
from ingot.semantics.frontend_attributes import read_attribute, write_attribute
from ingot.support.regex import regex

Order = tuple[int, ...]
_NAME = "ingot_call_layouts"
_CONSTRAINT = regex(r"\w+\[[^\]]*\](?:\{([\d,]*)(?::[^}]*)?\})?")
Item = TypeVar("Item")


def row_major(rank: int) -> Order:
    """Return the layout of dense row-major dimensions."""
    return tuple(range(rank - 1, -1, -1))


def physical_dims(dims: Sequence[Item], order: Order) -> tuple[Item, ...]:
    """Return the dimensions of the row-major array that holds logical `dims` in layout `order`."""
    return tuple(dims[dim] for dim in reversed(order))


def logical_dims(dims: Sequence[Item], order: Order) -> tuple[Item, ...]:
    """Return the logical dimensions of an array that is stored as row-major `dims`."""
    found = list(dims)
    for dim, size in zip(reversed(order), dims, strict=True):
        found[dim] = size
    return tuple(found)


def layout_orders(call: Instruction) -> tuple[tuple[Order, ...], tuple[Order, ...]]:
    """Return the layouts of the logical dimensions of operand and result leaves."""
    noted = noted_orders(call)
    if noted is not None:
        return noted
    shapes = _operand_leaves(call)
    constraints = _CONSTRAINT.finditer(call.attributes.operand_layout_constraints)
    found = [match.group(1) for match in constraints]
    operands = (
        [
            order_of_text(text) if text else row_major(s.rank)
            for text, s in zip(found, shapes, strict=True)
        ]
        if len(found) == len(shapes)
        else map(_order_of, shapes)
    )
    return tuple(operands), tuple(map(_order_of, _leaves(call.shape)))


def logical_shapes(call: Instruction) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Return the shapes of operand and result leaves as the target knows them, in their layouts."""
    explicit = noted_orders(call) is not None
    sides = zip((_operand_leaves(call), _leaves(call.shape)), layout_orders(call), strict=True)
    operands, results = (
        tuple(_in_layout(*pair, explicit) for pair in zip(shapes, orders, strict=True))
        for shapes, orders in sides
    )
    return operands, results


def note_orders(call: Instruction, operands: Sequence[Order], results: Sequence[Order]) -> None:
    """Note the order of the logical dimensions in the call's row-major operands and results."""
    text = ">".join(";".join(",".join(map(str, o)) for o in part) for part in (operands, results))
    write_attribute(call.extra, _NAME, text)


def noted_orders(call: Instruction) -> tuple[tuple[Order, ...], tuple[Order, ...]] | None:
    """Return what `note_orders` noted; None if the call's arrays have logical dimensions."""
    noted = read_attribute(call.extra, _NAME)
    if noted is None:
        return None
    counts = (len(_operand_leaves(call)), len(_leaves(call.shape)))
    operands, results = (
        tuple(map(order_of_text, text.split(";"))) if count else ()
        for text, count in zip(noted.split(">"), counts, strict=True)
    )
    return operands, results


def _in_layout(shape: Shape, order: Order, explicit: bool) -> Shape:
    if not shape.is_array:
        return shape
    dims = logical_dims(shape.dims, order) if explicit else shape.dims
    return Shape.array(shape.dtype, dims, Layout(order))


def _operand_leaves(call: Instruction) -> list[Shape]:
    return [leaf for operand in call.operands for leaf in _leaves(operand.shape)]


def _leaves(shape: Shape) -> list[Shape]:
    return [leaf for _, leaf in shape.leaves()]


def _order_of(shape: Shape) -> Order:
    layout = shape.layout
    return layout.minor_to_major if layout is not None else row_major(shape.rank)


def order_of_text(text: str) -> Order:
    """Return an order of dimensions written as `1,0`."""
    return tuple(int(part) for part in text.split(",") if part)
