# SPDX-License-Identifier: Apache-2.0
"""Parameters and results in layouts that the host chose, as row-major arrays.

In Ingot every value is dense row-major. A parameter in another layout becomes a row-major array of
permuted dimensions, which is transposed before its readers; a result is transposed behind its
maker. The transposes are ordinary ops: they fuse, or vanish against a transpose of the program. The
layout of a result that the compiler may choose is the one in which no transpose is left.

Invariant: afterwards the buffers of the entry are dense row-major arrays of its shapes, and no
layout is asked for.

Source: xla/service/layout_assignment.cc, as far as it is about the entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.expand.dynamic_boundary import reopen
from ingot.passes.fusion.recompute import LITERALS
from ingot.passes.layout.custom_call_layouts import physical_shape, reordered
from ingot.semantics.buffer_donation import drop_unequal_aliases
from ingot.semantics.call_layouts import Order, row_major
from ingot.semantics.entry_layouts import Layouts, take_entry_layouts
from ingot.support.records import record


@record
class EntryLayouts:
    """The layout of each parameter and each result, minor to major of its logical dimensions."""

    parameters: tuple[Order, ...]
    results: tuple[Order, ...]


def store_in_layouts(module: Module) -> EntryLayouts:
    """Give the entry row-major shapes for the layouts that it asks for; return the layouts."""
    shapes = module.parameter_shapes
    results = _elements(module.result_shape)
    wanted = take_entry_layouts(module)
    plain = EntryLayouts(_row_major(shapes), _row_major(results))
    if wanted is None:
        return plain
    given = [order or own for order, own in zip(wanted[0], plain.parameters, strict=True)]
    for parameter, order in zip(list(module.entry.parameters), given, strict=True):
        if parameter.shape.is_array and order != row_major(parameter.shape.rank):
            _store_parameter(parameter, order)
    made = _store_results(module, wanted[1])
    drop_unequal_aliases(module)
    return EntryLayouts(tuple(given), made)


def _elements(shape: Shape) -> tuple[Shape, ...]:
    return shape.elements if shape.is_tuple else (shape,)


def _row_major(shapes: Sequence[Shape]) -> tuple[Order, ...]:
    return tuple(row_major(shape.rank if shape.is_array else 0) for shape in shapes)


def _store_parameter(parameter: Instruction, order: Order) -> None:
    """Give a parameter the dimensions in which it is stored; its readers transpose it."""

    def logical(build: Builder, value: Instruction, shape: Shape) -> Instruction:
        return reordered(build, value, iter((order,)), into=False)

    stored = physical_shape(parameter.shape, iter((order,)))
    reopen(parameter.computation, parameter, stored, logical)


def _store_results(module: Module, wanted: Layouts) -> tuple[Order, ...]:
    """Give the results the dimensions in which they are stored; return their layouts."""
    root = module.entry.root
    build = Builder(module.entry, root.metadata)
    values = build.elements_of(root)
    orders = tuple(
        order if order is not None else order_without_transpose(value)
        for value, order in zip(values, wanted, strict=True)
    )
    stored = [
        reordered(build, value, iter((order,)), into=True)
        for value, order in zip(values, orders, strict=True)
    ]
    if stored != values:
        module.entry.set_root(build.value_of(stored, root.shape))
    return orders


def order_without_transpose(value: Instruction) -> Order:
    """Return the layout of a value for which no transpose has to move its elements.

    It is row-major unless the value is made by transposes and elementwise ops of one array.
    """
    if not value.shape.is_array:
        return ()
    # Dimension n of the value is dimension `found[n]` of the array that is looked at.
    found = tuple(range(value.shape.rank))
    while True:
        if value.opcode == "transpose":
            found = tuple(value.attributes.dimensions[dim] for dim in found)
            (value,) = value.operands
            continue
        arrays = [one for one in dict.fromkeys(value.operands) if one.opcode not in LITERALS]
        if len(arrays) != 1 or not (value.opcode == "copy" or value.has(Trait.ELEMENTWISE)):
            break
        (value,) = arrays
    return tuple(sorted(range(len(found)), key=lambda dim: -found[dim]))
