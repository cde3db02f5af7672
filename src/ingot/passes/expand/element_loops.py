# SPDX-License-Identifier: Apache-2.0
"""Computations that are applied to elements but cannot be vectorized over them.

Most reducers, comparators and mapped computations are arithmetic on scalars, which kernels compute
for whole vectors of elements. Those with loops, reductions, sorts, arrays, custom calls or calls
that stay run for one element after the other: as a `scan` over the elements in a row.

Example:
    >>> from ingot.hlo.builder import scalar_computation
    >>> has_loop(scalar_computation("add", "f32"))
    False
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, callees_first, reached
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.simplify.unfolding import unfolding

_NEAR = 32
"""Callees up to which each question walks them; beyond, the answer is computed for all at once."""

_BRANCHES = frozenset({"call", "conditional", "map"})
"""Ops whose computations can be computed for all elements at once."""


def has_loop(computation: Computation) -> bool:
    """Whether a computation needs a step of its own for each element, as it is not all scalars."""
    near = list(islice(reached(computation), _NEAR))
    if any(map(_has_loop_itself, near)):
        return True
    if len(near) < _NEAR:
        return False
    assert computation.module is not None, f"{computation.name} calls others of no module"
    return computation in computation.module.analysis(_with_loops)


def _with_loops(module: Module) -> set[Computation]:
    found: set[Computation] = set()
    for one in callees_first(module.computations.values()):
        if not found.isdisjoint(one.callees()) or _has_loop_itself(one):
            found.add(one)
    return found


def _has_loop_itself(computation: Computation) -> bool:
    return any(
        op.shape.dims
        or op.opcode == "custom-call"
        or (op.opcode == "call" and _stays(op))
        or (op.definition.callees and op.opcode not in _BRANCHES and op.called_computations)
        for op in computation.instructions
    )


def _stays(call: Instruction) -> bool:
    module = call.computation.module
    return module is not None and module.analysis(unfolding).stays(call)


def applied(
    build: Builder, module: Module, computation: Computation, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Return the results of `computation` at each element of `operands`, which are of one shape."""
    dims = operands[0].shape.dims
    if not dims:
        return build.elements_of(build.call(*operands, to_apply=computation))
    size = operands[0].shape.size
    rows = [build.reshape_to(operand, (size,)) for operand in operands]
    done = build.scan(
        *rows,
        build.constant(0, S32),
        num_carries=1,
        dimensions=(0,),
        to_apply=module.take(_step(computation)),
    )
    return [build.reshape_to(one, dims) for one in build.elements_of(done)[:-1]]


def converted(
    build: Builder, values: Sequence[Instruction], like: Sequence[Instruction]
) -> list[Instruction]:
    """Return `values` in the element types of `like`."""
    pairs = zip(values, like, strict=True)
    return [build.convert_to(value, other.shape.dtype) for value, other in pairs]


def _step(computation: Computation) -> Computation:
    """Return `computation` with a carry, which a scan must have, that stays the same."""
    b = Builder("map_step")
    elements = [b.parameter(n, one.shape) for n, one in enumerate(computation.parameters)]
    carry = b.parameter(len(elements), Shape.array(S32, ()))
    made = b.call(*elements, to_apply=computation)
    return b.build(b.tuple(*b.elements_of(made), carry))
