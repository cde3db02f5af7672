# SPDX-License-Identifier: Apache-2.0
"""Parameters and results of dynamic size: arrays at their bounds, or of their actual sizes.

`dynamic-boundary` makes of a parameter `f32[<=8]` an `f32[8]` and an `s32[]` after all other
parameters, of a result an array at its bound and an `s32[]` after all other results, in the order
of `dynamic_dims`. `client/executables/dynamic_sizes` does the same to the arrays of a call. XLA:CPU
supports no parameter of dynamic size.

`exact-boundary` makes of a parameter an `f32[?n]`, which the program puts into an array at its
bound; a result becomes an array whose size the program computes (`hlo.size_definitions`). So no
caller has to pad or cut an array, which for arrays of a GPU would be its work. On the CPU's host
both cost nothing there, and the program needs no stages.

Invariant: afterwards the entry's parameters and result have no dynamic dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.census import BOUNDED
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.shape import Shape, dynamic_dims
from ingot.hlo.size_definitions import define_size
from ingot.support.diagnostics import UnsupportedError
from ingot.support.lazy import function_at_home
from ingot.support.records import replace

without_bounds = function_at_home("ingot.passes.expand.dynamic.rewriter", "without_bounds")


@module_pass("dynamic-boundary", BOUNDED)
def dynamic_boundary(module: Module, context: PassContext) -> bool:
    """Gives sizes of their own to the entry's parameters and results."""
    taken = [p for p in module.entry.parameters if dynamic_dims([p.shape])]
    for parameter in taken:
        _open(module.entry, parameter)
    given = bool(dynamic_dims([module.entry.root.shape]))
    if given:
        _close(module)
    return bool(taken) or given


def pack_results(module: Module) -> None:
    """Put results of dynamic size at the start of arrays at their bounds, as XLA:CPU's client does.

    PJRT clients ask for the shape before anything runs; memory beyond the elements is undefined.

    Raises:
        UnsupportedError: a parameter is of dynamic size.
    """
    for parameter in module.entry.parameters:
        if dynamic_dims([parameter.shape]):
            raise UnsupportedError(
                "a PJRT program takes no parameter of dynamic size",
                instruction=repr(parameter),
                hint="pass the array at its bound and its size, and use set-dimension-size",
            )
    if dynamic_dims([module.result_shape]):
        build = Builder(module.entry, module.entry.root.metadata)
        packed = build.map_leaves(module.entry.root, partial(_packed, build))
        module.entry.set_root(packed)


def _packed(build: Builder, value: Instruction) -> Instruction:
    shape = value.shape
    if not dynamic_dims([shape]):
        return value
    count = math.prod(shape.static_dims)
    total = build.constant(1, S32)
    for dim in range(shape.rank):
        size = build.get_dimension_size(value, dimensions=(dim,))
        total = build.multiply(total, size)
    line = Shape.array(shape.dtype, (count,))
    flat = build.dynamic_reshape(value, total, shape=replace(line, bounded=(True,)))
    full = build.constant(count, S32)
    static = build.set_dimension_size(flat, full, shape=line, dimensions=(0,))
    return build.reshape_to(static, shape.dims)


def _open(entry: Computation, parameter: Instruction) -> None:
    """Make a parameter static; its readers read it with its size set."""

    def sized(build: Builder, value: Instruction, shape: Shape) -> Instruction:
        for _, dim in dynamic_dims([shape]):
            count = len(entry.parameters)
            name = f"{parameter.name}.size"
            size = build.parameter(count, Shape.array(S32, ()), name)
            value = with_size(build, value, shape, dim, size)
        return value

    reopen(entry, parameter, without_bounds(parameter.shape), sized)


Leaf = Callable[[Builder, Instruction, Shape], Instruction]
"""Makes an array of a shape that a parameter had of the array that it has now."""


def reopen(entry: Computation, parameter: Instruction, shape: Shape, leaf: Leaf) -> None:
    """Give a parameter another shape; its readers read what `leaf` makes of its arrays."""
    build = Builder(entry, parameter.metadata)
    users, is_root, before = list(parameter.users), entry.root is parameter, parameter.shape
    entry.set_shape(parameter, shape)

    def made(value: Instruction, shape: Shape) -> Instruction:
        if not shape.is_tuple:
            return leaf(build, value, shape)
        pairs = zip(build.elements_of(value), shape.elements, strict=True)
        return build.tuple(*(made(element, inner) for element, inner in pairs))

    value = made(parameter, before)
    for user in users:
        entry.replace_in(user, parameter, value)
    if is_root:
        entry.set_root(value)


def with_size(
    build: Builder, value: Instruction, shape: Shape, dim: int, size: Instruction
) -> Instruction:
    """Return an array with a size set, in one of the dimensions that are dynamic in `shape`."""
    marks = list(value.shape.bounded or (False,) * shape.rank)
    marks[dim] = True
    marked = replace(shape, bounded=tuple(marks))
    return build.set_dimension_size(value, size, shape=marked, dimensions=(dim,))


def at_bounds(build: Builder, value: Instruction) -> Instruction:
    """Return an array at its bounds; elements behind its sizes are undefined."""
    for _, dim in dynamic_dims([value.shape]):
        marks = list(value.shape.bounded)
        marks[dim] = False
        static = replace(value.shape, bounded=tuple(marks) if any(marks) else ())
        full = build.constant(value.shape.static_dims[dim], S32)
        value = build.set_dimension_size(value, full, shape=static, dimensions=(dim,))
    return value


def _close(module: Module) -> None:
    """Make the result static, followed by its sizes."""
    entry, root = module.entry, module.entry.root
    build, sizes = Builder(entry, root.metadata), list[Instruction]()

    def whole(value: Instruction) -> Instruction:
        for _, dim in dynamic_dims([value.shape]):
            sizes.append(build.get_dimension_size(value, dimensions=(dim,)))
        return at_bounds(build, value)

    result = build.map_leaves(root, whole)
    elements = build.elements_of(result)
    if not result.shape.is_tuple:
        module.aliases = tuple(replace(alias, output=(0,)) for alias in module.aliases)
    entry.set_root(build.tuple(*elements, *sizes))


Names = Iterator[str]


@module_pass("exact-boundary", BOUNDED)
def exact_boundary(module: Module, context: PassContext) -> bool:
    """Gives the entry's parameters and results the sizes that they have."""
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
        cut = partial(_cut, build, names)
        entry.set_root(build.map_leaves(entry.root, cut))
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


def _cut(build: Builder, names: Names, value: Instruction) -> Instruction:
    """Return an array of its actual size."""
    shape = value.shape
    dims = [dim for _, dim in dynamic_dims([shape])]
    if not dims:
        return value
    limits: list[int | Dim] = list(shape.dims)
    for dim in dims:
        name = next(names)
        define_size(build, build.get_dimension_size(value, dimensions=(dim,)), name)
        limits[dim] = Dim.symbol(name)
    return build.leading(at_bounds(build, value), tuple(limits))
