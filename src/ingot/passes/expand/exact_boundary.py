# SPDX-License-Identifier: Apache-2.0
"""Parameters and results of dynamic size, as arrays of their actual sizes.

A parameter `f32[<=8]` becomes an `f32[?n]`, which the program puts into an array at its bound; a
result becomes an array whose size the program computes (`hlo.size_definitions`). So no caller has
to pad or cut an array, which for arrays of a GPU would be its work. `dynamic_boundary` leaves
both to the caller: on the CPU's host they cost nothing there, and the program needs no stages.

Invariant: afterwards the entry's parameters and result have no dynamic dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.census import BOUNDED
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.shape import Shape
from ingot.hlo.size_definitions import define_size
from ingot.passes.expand.dynamic_boundary import (
    at_bounds,
    dynamic_dims,
    reopen,
    with_size,
)
from ingot.support.records import record, replace

Names = Iterator[str]


@record
class ExactBoundary(Pass):
    """Gives the entry's parameters and results the sizes that they have."""

    name = "exact-boundary"
    concerns = frozenset({BOUNDED})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite the entry's parameters, then its result."""
        entry, names = module.entry, _names(module)
        taken = [one for one in entry.parameters if dynamic_dims([one.shape])]
        given = bool(dynamic_dims([entry.root.shape]))
        if not taken and not given:
            return False
        # A value with another size at each call cannot take over memory.
        shapes = module.parameter_shapes
        module.aliases = tuple(
            alias
            for alias in module.aliases
            if not dynamic_dims([shapes[alias.parameter].at(alias.path)])
            and not dynamic_dims([module.result_shape.at(alias.output)])
        )
        for parameter in taken:
            reopen(entry, parameter, _exact(parameter.shape, names), _put_at_bounds)
        if given:
            build = Builder(entry, entry.root.metadata)
            entry.set_root(_cut(build, entry.root, names))
        return True


def _names(module: Module) -> Names:
    """Yield names of sizes that nobody uses."""
    instructions = (i for c in module.computations.values() for i in c.instructions)
    dims = (size for i in instructions for _, leaf in i.shape.leaves() for size in leaf.dims)
    used = symbols_of(dims)
    return (name for name in (f"size{number}" for number in count()) if name not in used)


def _exact(shape: Shape, names: Names) -> Shape:
    """Return the shape with a size of its own for every dynamic dimension."""
    if shape.is_tuple:
        return Shape.tuple(tuple(_exact(element, names) for element in shape.elements))
    if not shape.bounded:
        return shape
    rows = zip(shape.dims, shape.bounded, strict=True)
    dims = tuple(Dim.symbol(next(names)) if is_dynamic else size for size, is_dynamic in rows)
    return replace(shape, dims=dims, bounded=())


def _put_at_bounds(build: Builder, value: Instruction, shape: Shape) -> Instruction:
    """Return an array of dynamic size, given one that is as large as that."""
    dims = [dim for _, dim in dynamic_dims([shape])]
    if not dims:
        return value
    sizes = [build.get_dimension_size(value, dimensions=(dim,)) for dim in dims]
    room = build.full(0, replace(shape, bounded=()))
    zero = build.constant(0, S32)
    result = build.dynamic_update_slice(room, value, *(zero for _ in shape.dims))
    for dim, size in zip(dims, sizes, strict=True):
        result = with_size(build, result, shape, dim, size)
    return result


def _cut(build: Builder, value: Instruction, names: Names) -> Instruction:
    """Return a value whose arrays have their actual sizes."""
    shape = value.shape
    if shape.is_tuple:
        return build.tuple(*(_cut(build, one, names) for one in build.elements_of(value)))
    dims = [dim for _, dim in dynamic_dims([shape])]
    if not dims:
        return value
    limits: list[int | Dim] = list(shape.dims)
    for dim in dims:
        name = next(names)
        define_size(build, build.get_dimension_size(value, dimensions=(dim,)), name)
        limits[dim] = Dim.symbol(name)
    whole = at_bounds(build, value)
    slices = tuple((0, limit, 1) for limit in limits)
    return build.slice(whole, slice=slices)
