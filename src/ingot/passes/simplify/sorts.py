# SPDX-License-Identifier: Apache-2.0
"""Simpler sorts: along the last dimension, without unread operands; top-k for first elements.

Lines along another dimension are transposed, sorted and transposed back: each of their elements
lies in a page and a cache line of its own. An operand that the comparator ignores and whose
result has no user is not moved. A stable sort of values (with their indices) of which only
the first few are kept is `topk`, where a kernel selects and the comparator is the order that `topk`
has: integers, or floats in total order.

A kernel selects where an element and its index fit into one number of 64 bits
(`kernel.sort.topk`). For other types `topk` is a stable sort of values with indices, cut off after
k. Its meaning is the evaluator's: floats in total order, equal elements by index.

Source: xla/service/sort_simplifier.cc, xla/service/topk_rewriter.cc.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dim import product
from ingot.hlo.dtype import BF16, F16, F32, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.indexing import TopKAttributes
from ingot.hlo.rewrite.op_pass import expander, op_pass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.shape import Shape
from ingot.passes.inline import copy_into

LEAST_TRANSPOSED, LEAST_INTEGERS = 17, 33
"""Elements of a line from which on transposes pay, and of a line of integers alone. Shorter ones
are sorted by a network, many lines side by side (`kernel.sort.network`). Along the first dimension
64x1000 took 0.5 of the time, 1000x1000 0.5; positions of 1000x100 0.64, of 30x1000 0.9 (AVX-512,
one thread, 2026-11-27)."""

LEAST_PART = 8
"""A selection pays where at most one element of this many is kept."""


@op_pass("simplify-sorts", "sort")
def simplify_sorts(op: Instruction, module: Module, context: PassContext) -> bool:
    """Removes unread operands, makes the dimension the last one, selects a few elements."""
    if op.control_predecessors:
        return False
    return _narrow(op, module) or _select(op) or _transpose(op, module)


def _results(sort: Instruction) -> dict[int, list[Instruction]] | None:
    """Return the readers of each result; None where the whole tuple is used."""
    if not sort.shape.is_tuple:
        return None if sort.is_root else {0: list(sort.users)}
    found: dict[int, list[Instruction]] = {}
    for user in sort.users:
        if user.opcode != "get-tuple-element":
            return None
        readers = [user] if user.is_root else list(user.users)
        found.setdefault(user.attributes.index, []).extend(readers)
    return None if sort.is_root else found


# ---- operands that nobody reads


def _narrow(sort: Instruction, module: Module) -> bool:
    used = _results(sort) if sort.shape.is_tuple else None
    if used is None:
        return False
    comparator: Computation = sort.attributes.to_apply
    parameters = comparator.parameters
    used = [
        n
        for n in range(len(sort.operands))
        if n in used or any(p.users or p.is_root for p in parameters[2 * n : 2 * n + 2])
    ]
    if len(used) == len(sort.operands) or not used:
        return False
    build = Builder(sort.computation, sort.metadata)
    made = build.sort(
        *(sort.operands[n] for n in used),
        dimensions=sort.attributes.dimensions,
        is_stable=sort.attributes.is_stable,
        to_apply=module.take(_comparator(comparator, used)),
    )
    for user in list(sort.users):
        if user.attributes.index in used:
            position = used.index(user.attributes.index)
            part = build.get_tuple_element(made, index=position) if len(used) > 1 else made
            sort.computation.replace(user, part)
    return True


def _comparator(source: Computation, used: list[int]) -> Computation:
    build = Builder(source.name)
    copies: dict[Instruction, Instruction] = {}
    for position, number in enumerate(used):
        for side in (0, 1):
            old = source.parameters[2 * number + side]
            copies[old] = build.parameter(2 * position + side, old.shape, old.name)
    rest = [i for i in source.post_order() if i.opcode != "parameter"]
    return build.build(copy_into(build.computation, rest, copies)[source.root])


# ---- dimensions that are not the last


def _transpose(sort: Instruction, module: Module) -> bool:
    """Make the dimension of a sort the last one, if its lines are long."""
    dimension: int = sort.attributes.dimensions[0]
    dims = sort.operands[0].shape.dims
    length = dims[dimension]
    if (
        product(dims[dimension + 1 :]) == 1
        or not isinstance(length, int)
        or length < (LEAST_INTEGERS if _is_of_integers(sort) else LEAST_TRANSPOSED)
    ):
        return False
    rank = len(dims)
    there = (*(axis for axis in range(rank) if axis != dimension), dimension)
    back = tuple(there.index(axis) for axis in range(rank))
    build = Builder(sort.computation, sort.metadata)
    made = build.sort(
        *(build.transpose(operand, dimensions=there) for operand in sort.operands),
        dimensions=(rank - 1,),
        is_stable=sort.attributes.is_stable,
        to_apply=module.take(sort.attributes.to_apply.clone()),
    )
    parts = [build.transpose(part, dimensions=back) for part in build.elements_of(made)]
    sort.computation.replace(sort, build.value_of(parts, sort.shape))
    return True


def _is_of_integers(sort: Instruction) -> bool:
    return sort.shape.is_array and sort.shape.dtype.is_integer


# ---- first elements


def _select(sort: Instruction) -> bool:
    """Replace slices of the first elements by those of a selection."""
    readers = _results(sort)
    largest = _wants_largest(sort)
    if readers is None or largest is None or not _has_indices(sort):
        return False
    slices = [user for users in readers.values() for user in users]
    if not slices or not all(user.opcode == "slice" for user in slices):
        return False
    counts = [_first(user) for user in slices]
    k, rows = max(counts), sort.operands[0].shape.dims[-1]
    if 0 in counts or not isinstance(rows, int) or k * LEAST_PART > rows:
        return False
    build = Builder(sort.computation, sort.metadata)
    found = build.topk(sort.operands[0], k=k, largest=largest)
    for number, users in readers.items():
        part = build.element_of(found, number)
        for user in users:
            box = user.attributes.slice
            made = part if user.shape.dims == part.shape.dims else build.slice(part, slice=box)
            sort.computation.replace(user, made)
    return True


def _has_indices(sort: Instruction) -> bool:
    """Whether a stable sort along the last dimension is of values, or of them and their indices."""
    operand, last = sort.operands[0], sort.operands[0].shape.rank - 1
    if sort.attributes.dimensions != (last,) or not has_keys(operand.shape.dtype):
        return False
    if len(sort.operands) == 1:
        return True
    indices = sort.operands[1]
    is_count = indices.opcode == "iota" and indices.attributes.iota_dimension == last
    return (
        len(sort.operands) == 2
        and sort.attributes.is_stable
        and is_count
        and indices.shape.dtype.name == "s32"
    )


def _wants_largest(sort: Instruction) -> bool | None:
    """Return whether the comparator puts the largest first; None where it is another order."""
    comparator: Computation = sort.attributes.to_apply
    root = comparator.root
    if root.opcode != "compare" or list(root.operands) != comparator.parameters[:2]:
        return None
    given, element = root.attributes, sort.operands[0].shape.dtype
    if element.is_float and given.type != "TOTALORDER":
        return None
    return {"GT": True, "LT": False}.get(given.direction)


def _first(part: Instruction) -> int:
    """Return how many first elements of each row a slice keeps; 0 if it keeps other elements."""
    *rows, (start, limit, stride) = part.attributes.slice
    dims = part.operands[0].shape.dims
    whole = all(row == (0, size, 1) for row, size in zip(rows, dims[:-1], strict=True))
    return limit if whole and start == 0 and stride == 1 and isinstance(limit, int) else 0


@expander("topk-expander", "topk")
def topk_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `topk` into `sort` and slices, where no kernel selects."""
    return op if is_selected(op) else _sorted(op, build, module)


def is_selected(topk: Instruction) -> bool:
    """Whether a kernel selects."""
    return has_keys(topk.operands[0].shape.dtype) and topk.attributes.k > 0


def has_keys(element: DType) -> bool:
    """Whether kernels select among elements: floats of 16 or 32 bits, integers of 8 to 32."""
    return element in (F32, F16, BF16) or (element.is_integer and 8 <= element.bits <= 32)


def _sorted(topk: Instruction, build: Builder, module: Module) -> Instruction:
    given = topk.as_(TopKAttributes)
    (operand,) = topk.operands
    dims = operand.shape.dims
    last = len(dims) - 1
    indices = build.iota(shape=Shape.array(S32, dims), iota_dimension=last)
    ordered = build.sort(
        operand,
        indices,
        dimensions=(last,),
        is_stable=True,
        to_apply=module.take(_total_order(operand.shape, given.largest)),
    )
    cut = tuple((0, given.k if dim == last else size, 1) for dim, size in enumerate(dims))
    return build.tuple(*(build.slice(build.element_of(ordered, n), slice=cut) for n in (0, 1)))


def _total_order(operand: Shape, largest: bool) -> Computation:
    b = Builder("comes_first")
    scalar, index = Shape.array(operand.dtype, ()), Shape.array(S32, ())
    left, right, *_ = (b.parameter(n, s) for n, s in enumerate((scalar, scalar, index, index)))
    kind = "TOTALORDER" if operand.dtype.is_float else ""
    return b.build(b.compare(left, right, direction="GT" if largest else "LT", type=kind))
