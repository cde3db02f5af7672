# SPDX-License-Identifier: Apache-2.0
"""`scan` as a loop, and computations that run for one element after the other as a `scan`.

A `scan` becomes one step of the computation per element of a dimension.

Most reducers, comparators and mapped computations are arithmetic on scalars, which kernels compute
for whole vectors of elements; elementwise `map`s become ops on whole arrays (`map-inliner`). Those
with loops, reductions, sorts, arrays, custom calls or calls that stay run as a `scan` over the
elements in a row. Branches stay branches there, as a loop in a branch that is not taken may never
end.

Source: xla/hlo/transforms/expanders/scan_expander.cc; xla/service/cpu/ir_emitter.cc, which runs
`map` element after element.

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
from ingot.hlo.opset.transforms import ScanAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.passes.expand.counters import size_value
from ingot.passes.unfolding import unfolding
from ingot.support.records import record


@expander("scan_expander", "scan")
def scan_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `scan`."""
    given = op.as_(ScanAttributes)
    count = given.num_carries
    taken = len(op.operands) - count
    inputs, carries = op.operands[:taken], op.operands[taken:]
    (dimension,) = given.dimensions
    shapes = (op.shape,) if op.shape.is_array else op.shape.elements
    outputs = [build.full(0, shape) for shape in shapes[: len(shapes) - count]]
    size = (inputs or outputs)[0].shape.dims[dimension]
    if size == 0:
        return build.value_of([*outputs, *carries], op.shape)
    steps = build.convert_to(size_value(build, size), S32)
    state = build.tuple(build.constant(0, S32), steps, *inputs, *outputs, *carries)
    loop = build.while_(
        state,
        condition=module.take(counts_to_limit("scan_condition", state.shape)),
        body=module.take(_body(op, state.shape, len(inputs), len(outputs))),
    )
    numbers = range(2 + len(inputs), len(state.operands))
    return build.value_of([build.element_of(loop, n) for n in numbers], op.shape)


def counts_to_limit(name: str, state: Shape) -> Computation:
    """Return the condition of a loop: element 0 of its state is less than element 1."""
    b = Builder(name)
    values = b.parameter(0, state)
    return b.build(b.compare(b.element_of(values, 0), b.element_of(values, 1), direction="LT"))


def _body(op: Instruction, state: Shape, inputs: int, outputs: int) -> Computation:
    given = op.as_(ScanAttributes)
    (dimension,) = given.dimensions
    b = Builder("scan_body")
    values = b.parameter(0, state)
    step, steps, *rest = b.elements_of(values)
    at = b.subtract(b.subtract(steps, 1), step) if given.is_reverse else step
    slices = _Slices(b, at, dimension)
    taken = [slices.slice(value) for value in rest[:inputs]]
    made = b.elements_of(b.call(*taken, *rest[inputs + outputs :], to_apply=given.to_apply))
    written = [
        slices.updated(whole, value)
        for whole, value in zip(rest[inputs : inputs + outputs], made, strict=False)
    ]
    return b.build(b.tuple(b.add(step, 1), steps, *rest[:inputs], *written, *made[outputs:]))


@record
class _Slices:
    """The slices of one step, at index `at` along `dimension`."""

    build: Builder
    at: Instruction
    dimension: int

    def slice(self, whole: Instruction) -> Instruction:
        """Return the slice of an input."""
        dims, dimension = whole.shape.dims, self.dimension
        box = self.build.slice_at(whole, dimension, self.at, 1)
        return self.build.reshape_to(box, (*dims[:dimension], *dims[dimension + 1 :]))

    def updated(self, whole: Instruction, value: Instruction) -> Instruction:
        """Return an output with `value` as the step's slice."""
        box = self.build.reshape_to(value, whole.shape.with_dim(self.dimension, 1).dims)
        return self.build.update_at(whole, box, self.dimension, self.at)


@expander("map-to-scan", "map")
def map_to_scan(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `map` over computations with loops, reductions, sorts or custom calls."""
    mapped: Computation = op.attributes.to_apply
    if op.shape.size == 0 or not has_loop(mapped):
        return op
    return applied(build, module, mapped, op.operands)[0]


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
