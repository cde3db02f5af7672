# SPDX-License-Identifier: Apache-2.0
"""reducer-expander: reductions, windows, scatters and sorts that kernels do not support.

Kernels fold many elements at once with arithmetic; a reducer with a loop, a reduction or an array
does not allow that. So these few ops apply it to their elements in order (`scan`): a
`reduce` is a scan over the reduced elements, a window's elements are combined one after the other,
a scatter is a scan over its updates, each of which finds its element in the flat operands; one that
would lie outside changes nothing. A sort compares every pair: an element's rank is the number of
those that come before it; of equal ones the left comes first, so the sort is stable.

Kernels fold a window's padding as if it were the initial value. XLA omits it, so an initial value
that is no identity is combined once, after the window is folded; folds of other computations, and
of several values, fold a mark too, which padding lacks.

A reduction over no dimensions returns its operands: XLA's simplifier omits the initial value.

Invariant: ranks are a permutation, if the comparator is a strict weak order.

Source: xla/service/cpu/ir_emitter.cc, which emits such computations as functions;
xla/service/elemental_ir_emitter.cc (EmitElementalReduceWindow); scatter_expander.cc;
algebraic_simplifier.cc (HandleReduce).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from ingot.analysis.scans import is_scan
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dim import product as product_of
from ingot.hlo.dtype import PRED, S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.indexing import ScatterAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window
from ingot.passes.expand.normalization import WIDE_FLOATS, WIDE_SUMS
from ingot.passes.expand.scan import applied, converted, has_loop
from ingot.passes.inline import inline
from ingot.semantics.identities import identity_of
from ingot.semantics.reducers import is_identity, reducer_opcode, reducer_opcodes


def scattered(op: Instruction, build: Builder, module: Module) -> list[Instruction]:
    """Return the results of the scatter `op`, as arrays of rank 1, by a scan over its updates.

    Updates outside of the operand change nothing. The step of the scan is added to `module`.
    """
    combiner: Computation = op.attributes.to_apply
    count = len(op.operands) // 2
    operands, updates = op.operands[:count], op.operands[count + 1 :]
    size, number = updates[0].shape.size, operands[0].shape.size
    where = build.reshape_to(_target(op, build), (size,))
    rows = [build.reshape_to(update, (size,)) for update in updates]
    flat = [build.reshape_to(operand, (number,)) for operand in operands]
    done = build.scan(
        where,
        *rows,
        *flat,
        num_carries=count,
        dimensions=(0,),
        to_apply=module.take(_scatter_step(combiner, [one.shape for one in flat])),
    )
    dims = operands[0].shape.dims
    return [build.reshape_to(one, dims) for one in build.elements_of(done)]


def _target(op: Instruction, build: Builder) -> Instruction:
    """Return for each update the number of the element that it goes to; -1 for none."""
    given = op.as_(ScatterAttributes)
    count = len(op.operands) // 2
    operand, indices, update = op.operands[0], op.operands[count], op.operands[-1]
    dims = update.shape.dims
    wide = Shape.array(S64, dims)
    batch = tuple(n for n in range(len(dims)) if n not in given.update_window_dims)
    window = iter(given.update_window_dims)
    dropped = (*given.inserted_window_dims, *given.input_batching_dims)
    element, inside = build.full(0, wide), build.full(True, Shape.array(PRED, dims))
    for number, size in enumerate(operand.shape.dims):
        position, extent = build.full(0, wide), 1
        if number not in dropped:
            dim = next(window)
            position, extent = build.iota(shape=wide, iota_dimension=dim), dims[dim]
        if number in given.input_batching_dims:
            at = given.scatter_indices_batching_dims[given.input_batching_dims.index(number)]
            at -= at > given.index_vector_dim
            position = build.iota(shape=wide, iota_dimension=batch[at])
        elif number in given.scatter_dims_to_operand_dims:
            which = given.scatter_dims_to_operand_dims.index(number)
            start = build.broadcast_to(_start(indices, which, given, build), dims, batch)
            low = build.compare(start, 0, direction="GE")
            high = build.compare(start, size - extent, direction="LE")
            inside = build.and_(inside, build.and_(low, high))
            position = build.add(position, start)
        element = build.add(build.multiply(element, size), position)
    return build.select(inside, element, -1)


def _start(
    indices: Instruction, which: int, given: ScatterAttributes, build: Builder
) -> Instruction:
    """Return component `which` of every index vector, as s64."""
    dims, at = indices.shape.dims, given.index_vector_dim
    if at < len(dims):
        taken = build.slice_along(indices, at, which, which + 1)
        indices = build.reshape_to(taken, (*dims[:at], *dims[at + 1 :]))
    return build.convert_to(indices, S64)


def _scatter_step(combiner: Computation, operands: Sequence[Shape]) -> Computation:
    """Return the step (element, updates, operands) -> operands."""
    b = Builder("scatter_step")
    count = len(operands)
    updates = [Shape.array(shape.dtype, ()) for shape in operands]
    shapes = [Shape.array(S64, ()), *updates, *operands]
    where, *given = [b.parameter(n, shape) for n, shape in enumerate(shapes)]
    values, arrays = given[:count], given[count:]
    inside = b.compare(where, b.constant(0, S64), direction="GE")
    found = [b.dynamic_slice(one, where, dynamic_slice_sizes=(1,)) for one in arrays]
    old = [b.reshape_to(one, ()) for one in found]
    taken = [*converted(b, [*old, *values], combiner.parameters)]
    new = converted(b, b.elements_of(b.call(*taken, to_apply=combiner)), old)
    selected = [b.select(inside, *pair) for pair in zip(new, old, strict=True)]
    boxes = [b.reshape_to(one, (1,)) for one in selected]
    results = [
        b.dynamic_update_slice(array, box, where) for array, box in zip(arrays, boxes, strict=True)
    ]
    return b.build(b.tuple(*results))


def sorted_by_rank(op: Instruction, build: Builder, module: Module) -> list[Instruction]:
    """Return the sorted operands of the sort `op`, each element moved to its rank.

    The rank counts the elements that come before, and equal ones to the left. Ops that compare all
    pairs are added by `build`, the loop that calls the comparator to `module`.
    """
    comparator: Computation = op.attributes.to_apply
    axis: int = op.attributes.dimensions[0]
    dims = op.operands[0].shape.dims
    size, last = dims[axis], len(dims)
    dimensions = tuple(dim for dim in range(last) if dim != axis)
    rest = tuple(dims[dim] for dim in dimensions)
    rows = [build.transpose(one, dimensions=(*dimensions, axis)) for one in op.operands]
    square = (*rest, size, size)
    outer = tuple(range(last - 1))
    firsts = [build.broadcast_to(one, square, (*outer, last - 1)) for one in rows]
    seconds = [build.broadcast_to(one, square, (*outer, last)) for one in rows]
    pairs = [one for pair in zip(firsts, seconds, strict=True) for one in pair]
    (before,) = applied(build, module, comparator, pairs)
    swapped = build.transpose(before, dimensions=(*outer, last, last - 1))
    counts = Shape.array(S32, square)
    left, right = (build.iota(shape=counts, iota_dimension=n) for n in (last - 1, last))
    equal = build.not_(build.or_(before, swapped))
    first = build.and_(equal, build.compare(left, right, direction="LT"))
    ahead = build.convert_to(build.or_(before, first), S32)
    zero, add = build.constant(0, S32), module.take(scalar_computation("add", "s32"))
    rank = build.reduce(ahead, zero, dimensions=(last - 1,), to_apply=add)
    return [_by_rank(build, one, rank, module, (*dimensions, axis)) for one in rows]


def _by_rank(
    build: Builder, row: Instruction, rank: Instruction, module: Module, order: tuple[int, ...]
) -> Instruction:
    """Return the rows with each element at its rank, in the dimensions' own order."""
    dims = row.shape.dims
    axis = len(dims) - 1
    element = row.shape.dtype
    indices = Shape.array(S32, (*dims, 1))
    parts = [build.iota(shape=indices, iota_dimension=n) for n in range(axis)]
    parts.append(build.reshape_to(rank, (*dims, 1)))
    where = parts[0] if len(parts) == 1 else build.concatenate(*parts, dimensions=(len(dims),))
    b = Builder("put")
    scalar = Shape.array(element, ())
    b.parameter(0, scalar)
    put = module.take(b.build(b.parameter(1, scalar)))
    placed = build.scatter(
        row,
        where,
        row,
        update_window_dims=(),
        inserted_window_dims=tuple(range(len(dims))),
        scatter_dims_to_operand_dims=tuple(range(len(dims))),
        index_vector_dim=len(dims),
        unique_indices=True,
        to_apply=put,
    )
    back = tuple(order.index(dim) for dim in range(len(order)))
    return build.transpose(placed, dimensions=back)


def _reduced_over_nothing(op: Instruction, build: Builder) -> Instruction:
    pairs = zip(op.operands, op.shape.parts, strict=False)
    return build.value_of([build.convert_to(one, s.dtype) for one, s in pairs], op.shape)


def _reduce(op: Instruction, build: Builder, module: Module) -> list[Instruction]:
    reducer: Computation = op.attributes.to_apply
    reduced: tuple[int, ...] = tuple(sorted(op.attributes.dimensions))
    count = len(op.operands) // 2
    dims = op.operands[0].shape.dims
    unreduced = [dim for dim in range(len(dims)) if dim not in reduced]
    size = product_of(dims[dim] for dim in reduced)
    rest = tuple(dims[dim] for dim in unreduced)
    rows = [
        build.reshape_to(build.transpose(one, dimensions=(*reduced, *unreduced)), (size, *rest))
        for one in converted(build, op.operands[:count], reducer.parameters[count:])
    ]
    starts = converted(build, op.operands[count:], reducer.parameters[:count])
    carries = [build.broadcast_to(start, rest) for start in starts]
    done = build.scan(
        *rows,
        *carries,
        num_carries=count,
        dimensions=(0,),
        to_apply=module.take(_joining_step(reducer, rest, module)),
    )
    return converted(build, build.elements_of(done), op.operands[:count])


def _joining_step(reducer: Computation, dims: tuple[int | Dim, ...], module: Module) -> Computation:
    """Return the step (elements, totals) -> totals of arrays of `dims`."""
    b = Builder("reduce_step")
    count = len(reducer.parameters) // 2
    types = [one.shape.dtype for one in reducer.parameters]
    order = [*types[count:], *types[:count]]
    given = [b.parameter(n, Shape.array(element, dims)) for n, element in enumerate(order)]
    return b.build(b.tuple(*applied(b, module, reducer, [*given[count:], *given[:count]])))


def _is_padded(window: Window) -> bool:
    return any(one.low > 0 or one.high > 0 or one.base_dilation > 1 for one in window)


def _started_late(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Return a padded window whose padding changes nothing when it is folded."""
    reducer: Computation = op.attributes.to_apply
    opcode = reducer_opcode(reducer)
    if _starts_neutral(op) or (not opcode and is_scan(op)):  # scans pass over the elements alone
        return op
    value, start = op.operands[0], op.operands[-1]
    if not opcode or reducer.root.shape.dtype is not value.shape.dtype:
        return build.value_of(_marked(op, build, module), op.shape)
    element = value.shape.dtype
    wide = {**WIDE_FLOATS, **WIDE_SUMS}.get(element)
    if wide is not None:
        # Rounded once, after all are joined; some narrow types have no zero or no infinity.
        reducer = module.take(scalar_computation(opcode, wide))
        value, start = build.convert_to(value, wide), build.convert_to(start, wide)
    neutral = build.constant(identity_of(opcode, element), value.shape.dtype)
    folded = build.emit(
        "reduce-window", value, neutral, window=op.attributes.window, to_apply=reducer
    )
    joined = build.emit(opcode, build.broadcast_to(start, op.shape.dims), folded)
    return build.convert_to(joined, element)


def _starts_neutral(op: Instruction) -> bool:
    """Whether each value is folded by one op of its own, whose identity it starts from."""
    opcodes = reducer_opcodes(op.attributes.to_apply)
    starts = op.operands[len(opcodes) :]
    pairs = zip(starts, opcodes, strict=True)
    return all(opcode and is_identity(start, opcode) for start, opcode in pairs)


def _marked(op: Instruction, build: Builder, module: Module) -> list[Instruction]:
    """Return the results of a window that folds a mark with its elements: padding has none."""
    reducer: Computation = op.attributes.to_apply
    count = len(op.operands) // 2
    inputs = converted(build, op.operands[:count], reducer.parameters[count:])
    starts = converted(build, op.operands[count:], reducer.parameters[:count])
    marks = build.full(True, Shape.array(PRED, inputs[0].shape.dims))
    marked = build.emit(
        "reduce-window",
        *(*inputs, marks),
        *(*starts, build.constant(False, PRED)),
        window=op.attributes.window,
        to_apply=module.take(_of_marked(reducer, count)),
    )
    return converted(build, build.elements_of(marked)[:count], op.operands[:count])


def _of_marked(reducer: Computation, count: int) -> Computation:
    """Return a reducer of values and a mark, which leaves values as they are without the mark."""
    b = Builder("marked")
    mark = Shape.array(PRED, ())
    values = [one.shape for one in reducer.parameters]
    shapes = [*values[:count], mark, *values[count:], mark]
    given = [b.parameter(number, shape) for number, shape in enumerate(shapes)]
    totals, taken = given[:count], given[count + 1 : -1]
    joined = b.elements_of(inline(b.computation, reducer, [*totals, *taken]))
    kept = [b.select(given[-1], *pair) for pair in zip(joined, totals, strict=True)]
    return b.build(b.tuple(*kept, b.or_(given[count], given[-1])))


def _reduce_window(op: Instruction, build: Builder, module: Module) -> list[Instruction]:
    reducer: Computation = op.attributes.to_apply
    window: Window = op.attributes.window
    count = len(op.operands) // 2
    dims = (op.shape.elements[0] if op.shape.is_tuple else op.shape).dims
    inputs = converted(build, op.operands[:count], reducer.parameters[count:])
    starts = converted(build, op.operands[count:], reducer.parameters[:count])
    padding = tuple((one.low, one.high, one.base_dilation - 1) for one in window)
    padded = [build.pad(one, build.constant(0, one.shape.dtype), padding=padding) for one in inputs]
    everywhere = build.full(True, Shape.array(PRED, inputs[0].shape.dims))
    inside = build.pad(everywhere, build.constant(False, PRED), padding=padding)
    totals = [build.broadcast_to(start, dims) for start in starts]
    for index in product(*(range(one.size) for one in window)):
        firsts = [at * one.window_dilation for at, one in zip(index, window, strict=True)]
        boxes = tuple(
            (first, first + (n - 1) * one.stride + 1, one.stride)
            for first, one, n in zip(firsts, window, dims, strict=True)
        )
        taken = [build.slice(one, slice=boxes) for one in padded]
        joined = applied(build, module, reducer, [*totals, *taken])
        if _is_padded(window):
            real = build.slice(inside, slice=boxes)
            pairs = zip(joined, totals, strict=True)
            joined = [build.select(real, new, old) for new, old in pairs]
        totals = joined
    return converted(build, totals, op.operands[:count])


_Expansion = Callable[[Instruction, Builder, Module], list[Instruction]]

_EXPANSIONS: dict[str, _Expansion] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": scattered,
    "sort": sorted_by_rank,
}


@expander("reducer-expander", *_EXPANSIONS)
def reducer_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites ops whose computation on elements no kernel supports."""
    if op.opcode == "reduce" and not op.attributes.dimensions:
        return _reduced_over_nothing(op, build)
    if any(0 in one.shape.dims for one in op.operands):
        return op
    if not has_loop(op.attributes.to_apply):
        is_padded = op.opcode == "reduce-window" and _is_padded(op.attributes.window)
        return _started_late(op, build, module) if is_padded else op
    return build.value_of(_EXPANSIONS[op.opcode](op, build, module), op.shape)
