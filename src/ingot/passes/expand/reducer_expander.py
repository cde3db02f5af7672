# SPDX-License-Identifier: Apache-2.0
"""reducer-expander: reductions, windows, scatters and sorts that kernels do not support.

Kernels fold many elements at once with arithmetic; a reducer with a loop, a reduction or an array
does not allow that. So these few ops apply it to their elements in order (`element_loops`): a
`reduce` is a scan over the reduced elements, a window's elements are combined one after the other,
a scatter is a scan over its updates, and a sort counts for each element how many come before it.

Kernels fold a window's padding as if it were the initial value. XLA omits it, so an initial value
that is no identity is combined once, after the window is folded.

A reduction over no dimensions returns its operands: XLA's simplifier omits the initial value.

Source: xla/service/cpu/ir_emitter.cc, which emits such computations as functions;
xla/service/elemental_ir_emitter.cc (EmitElementalReduceWindow); scatter_expander.cc;
algebraic_simplifier.cc (HandleReduce).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from ingot.analysis.scans import is_scan
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window
from ingot.passes.expand.element_loops import applied, converted, has_loop
from ingot.passes.expand.normalization import WIDE_FLOATS, WIDE_SUMS
from ingot.passes.expand.scatter_scan import scattered
from ingot.passes.expand.sort_by_rank import sorted_by_rank
from ingot.semantics.identities import identity_of
from ingot.semantics.reducers import is_identity, reducer_opcode


def _reduced_over_nothing(op: Instruction, build: Builder) -> Instruction:
    shapes = op.shape.elements if op.shape.is_tuple else (op.shape,)
    pairs = zip(op.operands, shapes, strict=False)
    return build.value_of([build.convert_to(one, s.dtype) for one, s in pairs], op.shape)


def _reduce(op: Instruction, build: Builder, module: Module) -> list[Instruction]:
    reducer: Computation = op.attributes.to_apply
    reduced: tuple[int, ...] = tuple(sorted(op.attributes.dimensions))
    count = len(op.operands) // 2
    dims = op.operands[0].shape.dims
    unreduced = [dim for dim in range(len(dims)) if dim not in reduced]
    size: int | Dim = 1
    for dim in reduced:
        size = size * dims[dim]
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
    """Return a padded window of arithmetic that starts from the reducer's identity."""
    if len(op.operands) != 2:
        return op
    value, start = op.operands
    reducer: Computation = op.attributes.to_apply
    opcode = reducer_opcode(reducer)
    if not opcode and is_scan(op):  # one pass over the elements, from the initial value on
        return op
    if not opcode:
        return build.value_of(_reduce_window(op, build, module), op.shape)
    if is_identity(start, opcode) or reducer.root.shape.dtype is not value.shape.dtype:
        return op
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
        joined = _joined(build, module, reducer, [*totals, *taken])
        if _is_padded(window):
            real = build.slice(inside, slice=boxes)
            pairs = zip(joined, totals, strict=True)
            joined = [build.select(real, new, old) for new, old in pairs]
        totals = joined
    return converted(build, totals, op.operands[:count])


def _joined(
    build: Builder, module: Module, reducer: Computation, operands: list[Instruction]
) -> list[Instruction]:
    if has_loop(reducer):
        return applied(build, module, reducer, operands)
    dimensions = tuple(range(len(operands[0].shape.dims)))
    return [build.map(*operands, dimensions=dimensions, to_apply=reducer)]


_Expansion = Callable[[Instruction, Builder, Module], list[Instruction]]

_EXPANSIONS: dict[str, _Expansion] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": scattered,
    "sort": sorted_by_rank,
}


@expander("reducer-expander", *_EXPANSIONS)
def reducer_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrite ops whose computation on elements no kernel supports."""
    if op.opcode == "reduce" and not op.attributes.dimensions:
        return _reduced_over_nothing(op, build)
    if any(0 in one.shape.dims for one in op.operands):
        return op
    if not has_loop(op.attributes.to_apply):
        is_padded = op.opcode == "reduce-window" and _is_padded(op.attributes.window)
        return _started_late(op, build, module) if is_padded else op
    return build.value_of(_EXPANSIONS[op.opcode](op, build, module), op.shape)
