# SPDX-License-Identifier: Apache-2.0
"""Layouts made explicit: afterwards no pass or kernel looks at one.

In Ingot every value is dense row-major, whatever its layout says.

`bitcast-decomposer` writes `bitcast` as transposes, a reshape and a bitcast-convert. A bitcast
keeps the bytes in memory, so the layouts of its operand and its result define it: XLA's dumps after
its optimizations write many transposes this way. It runs before any pass that may replace an
operand by one of another layout.

`custom-call-layouts` puts transposes around calls whose layouts are not row-major: of its operands
before it and of its results after it. It gives the call the permuted shapes, and notes in it where
the dimensions that its target knows are (`semantics.call_layouts`). The transposes are ordinary
ops, which fuse with their neighbours. Calls that can solve the transposed problem get that instead.

`store_in_layouts` is for parameters and results in layouts that the host chose. A parameter in
another layout becomes a row-major array of permuted dimensions, which is transposed before its
readers; a result is transposed behind its maker. The layout of a result that the compiler may
choose is the one in which no transpose is left.

Triangular solves by LAPACK can solve the transposed problem: rows are passed as columns. LAPACK's
matrices are column-major, so it reads a row-major matrix as its transpose. A triangular system
`op(A) X = B` is `X^T op(A)^T = B^T`: with the opposite side and triangle, no element moves.
Cholesky factors could be transposed as well, but OpenBLAS takes 17 % to 33 % longer for upper
triangles than for lower ones, which is more than the transposes take.

Invariant: afterwards the buffers of the entry and of every custom call are dense row-major arrays
of its shapes; the same elements are read, and each result lies where the call's user reads it.

Source: xla/shape_util.h (DecomposeBitcast), xla/service/layout_assignment.cc as far as it is about
the entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ingot.hlo import dim
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import Trait, find
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.op_pass import op_pass
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.shape import Shape
from ingot.passes.expand.dynamic.boundary import reopen
from ingot.passes.fusion.recompute import LITERALS
from ingot.semantics.assertions import is_assertion
from ingot.semantics.buffer_donation import drop_unequal_aliases
from ingot.semantics.call_layouts import (
    Order,
    layout_orders,
    logical_dims,
    note_orders,
    noted_orders,
    physical_dims,
    row_major,
)
from ingot.semantics.custom_calls import config_text, set_config
from ingot.semantics.entry_layouts import Layouts, take_entry_layouts
from ingot.support.records import record, replace
from ingot.support.regex import regex


@op_pass("custom-call-layouts", "custom-call")
def custom_call_layouts(op: Instruction, module: Module, context: PassContext) -> bool:
    """Makes the layouts of custom calls explicit: transposes, or a transposed problem to solve."""
    if is_assertion(op) or not _moves(op):
        return False
    config = transposed_config(op)
    if config is None:
        _make_explicit(op)
    else:
        _transpose(op, config)
    return True


def _moves(call: Instruction) -> bool:
    orders = (order for side in layout_orders(call) for order in side)
    return noted_orders(call) is None and any(o != row_major(len(o)) for o in orders)


def _make_explicit(call: Instruction) -> None:
    operand_orders, result_orders = layout_orders(call)
    build = Builder(call.computation, call.metadata)
    orders = iter(operand_orders)
    operands = [reordered(build, operand, orders, into=True) for operand in call.operands]
    made = call.computation.copy_of(call, operands)
    call.computation.set_shape(made, physical_shape(call.shape, iter(result_orders)))
    if call.attributes.operand_layout_constraints:
        _constrain(made, operands)
    note_orders(made, operand_orders, result_orders)
    result = reordered(build, made, iter(result_orders), into=False)
    call.computation.replace(call, result)


def _transpose(call: Instruction, config: str) -> None:
    """Let a call solve the transposed problem, whose columns are the rows in memory."""
    orders = layout_orders(call)
    set_config(call, config)
    call.computation.set_shape(call, _plain(call.shape))
    if call.attributes.operand_layout_constraints:
        _constrain(call, call.operands)
    note_orders(call, *orders)


def _constrain(call: Instruction, operands: Sequence[Instruction]) -> None:
    """Note that a call takes its operands in the layouts that they have."""
    shapes = [leaf for operand in operands for _, leaf in operand.shape.leaves()]
    text = "{" + ", ".join(map(str, shapes)) + "}"
    attributes = replace(call.attributes, operand_layout_constraints=text)
    call.computation.set_attributes(call, attributes)


def reordered(
    build: Builder, value: Instruction, orders: Iterator[Order], *, into: bool
) -> Instruction:
    """Return the value's arrays transposed between logical order and memory order."""
    if value.shape.is_tuple:
        elements = build.elements_of(value)
        return build.tuple(*(reordered(build, e, orders, into=into) for e in elements))
    order = next(orders)
    dimensions = range(value.shape.rank)
    # A transpose's result dimension n is dimension permutation[n] of its operand.
    permutation = physical_dims(dimensions, order) if into else logical_dims(dimensions, order)
    if not value.shape.is_array or permutation == tuple(dimensions):
        return value
    return build.transpose(value, dimensions=permutation)


def _plain(shape: Shape) -> Shape:
    """Return the shape with row-major arrays."""
    if shape.is_tuple:
        return Shape.tuple(tuple(map(_plain, shape.elements)))
    return shape.with_dims(shape.dims) if shape.is_array else shape


def physical_shape(shape: Shape, orders: Iterator[Order]) -> Shape:
    """Return the row-major shape in which the arrays of `shape` are stored in these layouts."""
    if shape.is_tuple:
        return Shape.tuple(tuple(physical_shape(element, orders) for element in shape.elements))
    order = next(orders)
    return shape.with_dims(physical_dims(shape.dims, order)) if shape.is_array else shape


_TARGET = regex(r"lapack_[sdcz]trsm_ffi")

_OPPOSITE: Mapping[str, Mapping[str, str]] = {
    "side": {"L": "R", "R": "L"},
    "uplo": {"L": "U", "U": "L"},
}
"""Attributes that are the opposite in the transposed problem."""

DEPTH = 4
"""A value is traced to a transpose through at most this many elementwise ops."""


def transposed_config(call: Instruction) -> str | None:
    """Return the configuration of the call's transposed problem if that moves less, else None."""
    is_known = _TARGET.fullmatch(call.attributes.custom_call_target) is not None
    if not is_known or not _is_by_columns(call) or not _moves_less(call):
        return None
    config: str | None = config_text(call)
    for name in _OPPOSITE:
        config = None if config is None else _with_opposite(config, name)
    return config


def _with_opposite(config: str, name: str) -> str | None:
    """Return a configuration with the opposite of one attribute; None if it has none."""
    match = re.search(rf"\b{name} = (\d+)\b", config)
    other = _OPPOSITE[name].get(chr(int(match.group(1)))) if match is not None else None
    if match is None or other is None:
        return None
    return config[: match.start(1)] + str(ord(other)) + config[match.end(1) :]


def _is_by_columns(call: Instruction) -> bool:
    """Whether all matrices of a call are column-major, in row-major batches."""
    rank = call.operands[0].shape.rank
    if rank < 2 or any(operand.shape.rank != rank for operand in call.operands):
        return False
    columns = (rank - 2, rank - 1, *range(rank - 3, -1, -1))
    orders = [order for side in layout_orders(call) for order in side]
    return all(order == columns for order in orders if len(order) == rank)


def _moves_less(call: Instruction) -> bool:
    """Whether passing rows moves fewer elements; the results are needed by rows."""
    rows: int | Dim = 0
    columns: int | Dim = sum(leaf.size for _, leaf in call.shape.leaves())
    for operand in call.operands:
        if _is_transposed(operand, DEPTH):
            rows = rows + operand.shape.size
        else:
            columns = columns + operand.shape.size
    if isinstance(rows, Dim) or isinstance(columns, Dim):
        return rows == 0
    return rows <= columns


def _is_transposed(value: Instruction, depth: int) -> bool:
    """Whether a value is a matrix's transpose, or computed element by element from one."""
    if value.opcode == "transpose":
        given = value.as_(DimensionsAttributes)
        rank = value.shape.rank
        return given.dimensions[-2:] == (rank - 1, rank - 2)
    if value.opcode == "get-tuple-element" and value.operands[0].opcode == "tuple":
        index: int = value.attributes.index
        return depth > 0 and _is_transposed(value.operands[0].operands[index], depth - 1)
    if depth == 0 or not find(value.opcode).has(Trait.ELEMENTWISE):
        return False
    return any(_is_transposed(operand, depth - 1) for operand in value.operands)


@module_pass("bitcast-decomposer", "bitcast")
def bitcast_decomposer(module: Module, context: PassContext) -> bool:
    """Replaces every `bitcast` by ops whose meaning does not depend on layouts."""
    changed = False
    for computation in module.post_order():
        # All are read before any is replaced: operands' layouts must be the original ones.
        bitcasts = [i for i in computation.post_order() if i.opcode == "bitcast"]
        orders = [(_order(i.operands[0].shape), _order(i.shape)) for i in bitcasts]
        for bitcast, (before, after) in zip(bitcasts, orders, strict=True):
            computation.replace(bitcast, _decomposed(bitcast, before, after))
            changed = True
    return changed


def _order(shape: Shape) -> tuple[int, ...]:
    """Return the dimensions in memory order, major first."""
    if shape.layout is None:
        return tuple(range(shape.rank))
    return tuple(reversed(shape.layout.minor_to_major))


def _decomposed(
    bitcast: Instruction, before: tuple[int, ...], after: tuple[int, ...]
) -> Instruction:
    build = Builder(bitcast.computation, bitcast.metadata)
    lying = tuple(bitcast.shape.dims[dimension] for dimension in after)
    value = _transposed(build, bitcast.operands[0], before)
    value = _as_type(build, value, bitcast.shape.with_dims(lying))
    inverse = tuple(after.index(dimension) for dimension in range(len(after)))
    return _transposed(build, value, inverse)


def _transposed(build: Builder, value: Instruction, order: tuple[int, ...]) -> Instruction:
    if order == tuple(range(len(order))):
        return value
    return build.transpose(value, dimensions=order)


def _as_type(build: Builder, value: Instruction, shape: Shape) -> Instruction:
    """Return the row-major bits of `value` as `shape`."""
    source, target = value.shape.dtype, shape.dtype
    if source is target:
        return build.reshape_to(value, shape.dims)
    if PRED in (source, target):
        return build.convert_to(build.reshape_to(value, shape.dims), target)
    count = value.shape.size
    flat: tuple[int | Dim, ...]
    if source.bits == target.bits:
        flat = shape.dims
        value = build.reshape_to(value, flat)
    elif source.bits > target.bits:
        flat = (count, source.bits // target.bits)
        value = build.reshape_to(value, (count,))
    else:
        ratio = target.bits // source.bits
        flat = (dim.floordiv(count, ratio),)
        value = build.reshape_to(value, (*flat, ratio))
    made = build.bitcast_convert(value, shape=Shape.array(target, flat))
    return build.reshape_to(made, shape.dims)


@record
class EntryLayouts:
    """The layout of each parameter and each result, minor to major of its logical dimensions."""

    parameters: tuple[Order, ...]
    results: tuple[Order, ...]


def store_in_layouts(module: Module) -> EntryLayouts:
    """Give the entry row-major shapes for the layouts that it asks for; return the layouts."""
    shapes = module.parameter_shapes
    results = module.result_shape.parts
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
