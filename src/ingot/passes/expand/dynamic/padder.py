# SPDX-License-Identifier: Apache-2.0
"""Bounded dynamic dimensions (`f32[<=8]`) as full arrays beside their sizes.

A dynamic array lies in memory at its bound; its size is a scalar that this pass carries along from
`set-dimension-size` to `get-dimension-size`. The state of a loop, the operand and the result of a
branch get one s32[] for each dynamic dimension, behind their own elements; their computations are
copied and rewritten for that. Elements beyond a size must not be seen: the table
`semantics/dynamic_sizes` lists what each op masks and how large its result is. `moves` finds
elements across the border of a size; `boundary` handles arrays that enter and leave the
program.

Invariant: afterwards no shape in a reachable computation has a dynamic dimension.

Source: xla/service/dynamic_dimension_inference.cc, dynamic_padder.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.census import BOUNDED
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.shape import Shape
from ingot.passes.expand.dynamic import moves
from ingot.passes.expand.dynamic.rewriter import (
    RESIZING,
    Leaves,
    Rewriter,
    is_dynamic,
    without_bounds,
)
from ingot.passes.unfolding import has_dynamic_ends
from ingot.semantics.dynamic_sizes import Sizes, stays_in_order


@module_pass("dynamic_padder", BOUNDED, *RESIZING)
def dynamic_padder(module: Module, context: PassContext) -> bool:
    """Replaces dynamic dimensions by their bounds, sizes and masks."""
    dynamic = [c for c in module.post_order() if any(map(is_dynamic, c.instructions))]
    for computation in dynamic:
        # Others are rewritten at their call.
        if computation is module.entry or not has_dynamic_ends(computation):
            Rewriter(module, computation, RULES).run()
    # Loops and branches call copies now.
    called = set(module.post_order())
    for computation in dynamic:
        if computation not in called:
            module.remove(computation)
    return bool(dynamic)


# ---- ops that make and ask for sizes


def _set_size(rewriter: Rewriter, op: Instruction) -> None:
    operand, size = op.operands
    dim: int = op.attributes.dimensions[0]
    found = dict(rewriter.of(operand))
    found.pop(dim, None)
    build = rewriter.builder(op)
    if op.shape.bounded and op.shape.bounded[dim]:
        low = build.constant(0, S32)
        high = rewriter.number(op.shape.dims[dim])
        found[dim] = rewriter.size(build.clamp(low, size, high))
    # A copy: the operand itself may be used at its own size too.
    rewriter.replace(op, build.copy(operand), found)


def _get_size(rewriter: Rewriter, op: Instruction) -> None:
    size = rewriter.of(op.operands[0]).get(op.attributes.dimensions[0])
    if size is not None:
        rewriter.replace(op, rewriter.number(size), {})


def _dynamic_reshape(rewriter: Rewriter, op: Instruction) -> None:
    build = rewriter.builder(op)
    found: Sizes = {}
    for dim, (size, bound) in enumerate(zip(op.operands[1:], op.shape.dims, strict=True)):
        if op.shape.bounded and op.shape.bounded[dim]:
            low, high = build.constant(0, S32), rewriter.number(bound)
            found[dim] = rewriter.size(build.clamp(low, build.convert_to(size, S32), high))
    _reshape_to(rewriter, op, found)


def _custom_call(rewriter: Rewriter, op: Instruction) -> None:
    """XLA's own casts between an array of dynamic size and a static one with its sizes."""
    target: str = op.attributes.custom_call_target
    build = rewriter.builder(op)
    operand, *sizes = op.operands
    if target == "SliceToDynamic":
        low, dims = build.constant(0, S32), op.shape.dims
        found: Sizes = {
            dim: rewriter.size(build.clamp(low, sizes[dim], rewriter.number(dims[dim])))
            for dim, is_dynamic in enumerate(op.shape.bounded)
            if is_dynamic
        }
        rewriter.replace(op, build.copy(operand), found)
    elif target == "PadToStatic":
        known = rewriter.of(operand)
        numbers = (
            rewriter.number(known.get(dim, size)) for dim, size in enumerate(operand.shape.dims)
        )
        zero = build.constant(0, operand.shape.dtype)
        whole = rewriter.masked(op, operand, known, zero)
        rewriter.replace_leaves(op, build.tuple(whole, *numbers), {})
    else:
        rewriter.general(op)


# ---- ops that move elements across the border of a size


def _reshape(rewriter: Rewriter, op: Instruction) -> None:
    _reshape_to(rewriter, op, rewriter.result_sizes(op))


def _reshape_to(rewriter: Rewriter, op: Instruction, after: Sizes) -> None:
    (operand, *_), build = op.operands, rewriter.builder(op)
    before, dims = rewriter.of(operand), op.shape.dims
    if stays_in_order(operand.shape, op.shape, before, after):
        made = build.reshape_to(operand, dims)
        made = build.copy(made) if made is operand else made
    else:
        made = moves.reshaped(
            build, operand, rewriter.numbers(before), op.shape.static_dims, rewriter.numbers(after)
        )
        made = _zeros_behind(rewriter, op, made, after)
    rewriter.replace(op, made, after)


def _reverse(rewriter: Rewriter, op: Instruction) -> None:
    (operand,), sizes = op.operands, rewriter.of(op.operands[0])
    if not sizes.keys() & set(op.attributes.dimensions):
        rewriter.general(op)
        return
    numbers = rewriter.numbers(sizes)
    made = moves.reversed_along(rewriter.builder(op), operand, numbers, op.attributes.dimensions)
    rewriter.replace(op, _zeros_behind(rewriter, op, made, sizes), dict(sizes))


def _zeros_behind(
    rewriter: Rewriter, op: Instruction, made: Instruction, sizes: Sizes
) -> Instruction:
    """Return a replacement of an op in which elements beyond the sizes are arbitrary."""
    zero = rewriter.builder(op).constant(0, made.shape.dtype)
    return rewriter.masked(op, made, sizes, zero)


def _concatenate(rewriter: Rewriter, op: Instruction) -> None:
    sizes = rewriter.result_sizes(op)
    dim: int = op.attributes.dimensions[0]
    if dim not in sizes:
        rewriter.general(op)
        return
    lengths = [
        rewriter.number(rewriter.of(operand).get(dim, operand.shape.dims[dim]))
        for operand in op.operands
    ]
    made = moves.joined(rewriter.builder(op), op.operands, lengths, dim)
    rewriter.replace(op, made, sizes)


def _sort(rewriter: Rewriter, op: Instruction) -> None:
    sizes = rewriter.result_sizes(op)
    dim: int = op.attributes.dimensions[0]
    if dim not in sizes:
        rewriter.general(op)
        return
    inside = rewriter.inside(op, op.operands[0].shape, dim, sizes[dim])
    made = moves.sorted_inside(rewriter.builder(op), rewriter.module, op, inside)
    rewriter.replace(op, made, sizes)


def _dynamic_update_slice(rewriter: Rewriter, op: Instruction) -> None:
    base, update, *starts = op.operands
    dims = base.shape.dims
    partial = {n: s for n, s in rewriter.of(update).items() if update.shape.dims[n] != dims[n]}
    sizes = rewriter.result_sizes(op)
    if partial:
        build = rewriter.builder(op)
        behind = build.dynamic_slice(base, *starts, dynamic_slice_sizes=update.shape.dims)
        masked = rewriter.masked(op, update, partial, behind)
        rewriter.computation.replace_operand(op, 1, masked)
    rewriter.keep(op, sizes)


# ---- ops that hand values on


def _tuple(rewriter: Rewriter, op: Instruction) -> None:
    rewriter.leaves[op] = {
        (number, *path): sizes
        for number, operand in enumerate(op.operands)
        for path, sizes in rewriter.leaves.get(operand, {}).items()
    }


def _element(rewriter: Rewriter, op: Instruction) -> None:
    found = rewriter.leaves.get(op.operands[0], {})
    index: int = op.attributes.index
    rewriter.leaves[op] = {path[1:]: sizes for path, sizes in found.items() if path[0] == index}


def _same(rewriter: Rewriter, op: Instruction) -> None:
    rewriter.leaves[op] = rewriter.leaves.get(op.operands[0], {})


# ---- loops and branches


Carried = tuple[tuple[int, ...], int]
"""A dimension of dynamic size: the path of the array, the number of the dimension."""


def _while(rewriter: Rewriter, op: Instruction) -> None:
    """Let a loop carry the sizes of its state."""
    (start,), build = op.operands, rewriter.builder(op)
    carried = _carried(op.shape, rewriter.leaves.get(start, {}))
    bodies: list[Computation] = []
    for source in (op.attributes.condition, op.attributes.body):
        inner = _widened(rewriter, source, carried)
        inner.run()
        bodies.append(inner.computation)
        if source is op.attributes.body:
            root = inner.computation.root
            inner.computation.set_root(_with_sizes(inner, root, carried))
    wide = _with_sizes(rewriter, start, carried)
    made = build.while_(wide, condition=bodies[0], body=bodies[1])
    made.extra = dict(op.extra)
    _narrowed(rewriter, op, made, carried)


def _conditional(rewriter: Rewriter, op: Instruction) -> None:
    """Let branches take and give sizes."""
    index, *operands = op.operands
    inner: list[Rewriter] = []
    wide: list[Instruction] = []
    for source, operand in zip(op.attributes.branch_computations, operands, strict=True):
        carried = _carried(operand.shape, rewriter.leaves.get(operand, {}))
        branch = _widened(rewriter, source, carried)
        branch.run()
        inner.append(branch)
        wide.append(_with_sizes(rewriter, operand, carried))
    given = [_carried(op.shape, b.leaves.get(b.computation.root, {})) for b in inner]
    carried = sorted({dim for dimensions in given for dim in dimensions})
    for branch in inner:
        root = branch.computation.root
        branch.computation.set_root(_with_sizes(branch, root, carried))
    made = rewriter.builder(op).conditional(
        index, *wide, branch_computations=tuple(branch.computation for branch in inner)
    )
    made.extra = dict(op.extra)
    _narrowed(rewriter, op, made, carried)


def _carried(shape: Shape, leaves: Leaves) -> list[Carried]:
    """Return the dimensions that are dynamic or declared to be."""
    found: set[Carried] = {(path, dim) for path, sizes in leaves.items() for dim in sizes}
    for path, leaf in shape.leaves():
        found |= {(path, dim) for dim, flag in enumerate(leaf.bounded) if flag}
    return sorted(found)


def _widened(rewriter: Rewriter, source: Computation, carried: Sequence[Carried]) -> Rewriter:
    """Return the rewriter of a copy that takes `carried` sizes with its parameter."""
    copy = rewriter.module.take(source.clone())
    inner = Rewriter(rewriter.module, copy, rewriter.rules)
    if not carried:
        return inner
    (parameter,) = copy.parameters
    narrow, users = parameter.shape, list(parameter.users)
    elements = narrow.parts
    sizes = (Shape.array(S32, ()),) * len(carried)
    copy.set_shape(parameter, Shape.tuple((*map(without_bounds, elements), *sizes)))
    state, leaves = _state(inner, parameter, narrow, carried)
    inner.leaves[state] = leaves
    for user in users:
        copy.replace_in(user, parameter, state)
    if copy.root is parameter:
        copy.set_root(state)
    return inner


def _state(
    rewriter: Rewriter, wide: Instruction, narrow: Shape, carried: Sequence[Carried]
) -> tuple[Instruction, Leaves]:
    """Return a value without the sizes after its elements, and the sizes by path and dimension."""
    build = Builder(rewriter.computation, wide.metadata)
    parts = build.elements_of(wide)
    leaves: Leaves = {}
    for size, (path, dim) in zip(parts[-len(carried) :], carried, strict=True):
        leaves.setdefault(path, {})[dim] = rewriter.size(size)
    return build.value_of(parts[: -len(carried)], narrow), leaves


def _with_sizes(rewriter: Rewriter, value: Instruction, carried: Sequence[Carried]) -> Instruction:
    """Return a value with sizes after its elements; static dimensions have their full size."""
    if not carried:
        return value
    build = Builder(rewriter.computation, value.metadata)
    leaves = rewriter.leaves.get(value, {})
    return build.tuple(*build.elements_of(value), *(
        rewriter.number(leaves.get(path, {}).get(dim, value.shape.at(path).dims[dim]))
        for path, dim in carried
    ))  # fmt: skip


def _narrowed(
    rewriter: Rewriter, op: Instruction, made: Instruction, carried: Sequence[Carried]
) -> None:
    """Replace a loop or branch by its result without the sizes."""
    state, leaves = (made, {}) if not carried else _state(rewriter, made, op.shape, carried)
    rewriter.replace_leaves(op, state, leaves)


RULES: dict[str, Callable[[Rewriter, Instruction], None]] = {
    "add-dependency": _same,
    "concatenate": _concatenate,
    "conditional": _conditional,
    "copy": _same,
    "custom-call": _custom_call,
    "domain": _same,
    "dynamic-reshape": _dynamic_reshape,
    "dynamic-update-slice": _dynamic_update_slice,
    "get-dimension-size": _get_size,
    "get-tuple-element": _element,
    "opt-barrier": _same,
    "reshape": _reshape,
    "reverse": _reverse,
    "set-dimension-size": _set_size,
    "sort": _sort,
    "tuple": _tuple,
    "while": _while,
}
