# SPDX-License-Identifier: Apache-2.0
"""`scan` as a loop: one step of the computation per element of a dimension.

Source: xla/hlo/transforms/expanders/scan_expander.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.transforms import ScanAttributes
from ingot.hlo.shape import Shape
from ingot.passes.expand.counters import size_value
from ingot.passes.expand.expander import Expander


@dataclass(frozen=True, slots=True)
class ScanToWhile(Expander):
    """Rewrites `scan`."""

    name: ClassVar[str] = "scan_expander"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"scan"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return outputs and carries of the loop."""
        given = op.as_(ScanAttributes)
        count = given.num_carries
        taken = len(op.operands) - count
        inputs, carries = op.operands[:taken], op.operands[taken:]
        (place,) = given.dimensions
        shapes = (op.shape,) if op.shape.is_array else op.shape.elements
        outputs = [build.full(0, shape) for shape in shapes[: len(shapes) - count]]
        size = (inputs or outputs)[0].shape.dims[place]
        if size == 0:
            found = [*outputs, *carries]
            return found[0] if op.shape.is_array else build.tuple(*found)
        steps = build.convert_to(size_value(build, size), S32)
        state = build.tuple(build.constant(0, S32), steps, *inputs, *outputs, *carries)
        loop = build.while_(
            state,
            condition=module.take(_condition(state.shape)),
            body=module.take(_body(op, state.shape, len(inputs), len(outputs))),
        )
        first = 2 + len(inputs)
        results = [build.element_of(loop, first + n) for n in range(len(outputs) + count)]
        return results[0] if op.shape.is_array else build.tuple(*results)


def _condition(state: Shape) -> Computation:
    b = Builder("scan_condition")
    values = b.parameter(0, state)
    return b.build(b.compare(b.element_of(values, 0), b.element_of(values, 1), direction="LT"))


def _body(op: Instruction, state: Shape, inputs: int, outputs: int) -> Computation:
    given = op.as_(ScanAttributes)
    (place,) = given.dimensions
    b = Builder("scan_body")
    values = b.parameter(0, state)
    parts = [b.element_of(values, n) for n in range(len(state.elements))]
    step, steps, rest = parts[0], parts[1], parts[2:]
    one, zero = b.constant(1, S32), b.constant(0, S32)
    at = b.subtract(b.subtract(steps, one), step) if given.is_reverse else step
    taken = [_slice(b, value, at, zero, place) for value in rest[:inputs]]
    found = b.call(*taken, *rest[inputs + outputs :], to_apply=given.to_apply)
    made = [found]
    if found.shape.is_tuple:
        made = [b.element_of(found, n) for n in range(len(found.shape.elements))]
    written = [
        _updated(b, whole, value, at, zero, place)
        for whole, value in zip(rest[inputs : inputs + outputs], made, strict=False)
    ]
    return b.build(b.tuple(b.add(step, one), steps, *rest[:inputs], *written, *made[outputs:]))


def _slice(
    b: Builder, value: Instruction, at: Instruction, zero: Instruction, place: int
) -> Instruction:
    dims = value.shape.dims
    sizes = (*dims[:place], 1, *dims[place + 1 :])
    starts = [at if n == place else zero for n in range(len(dims))]
    box = b.dynamic_slice(value, *starts, dynamic_slice_sizes=sizes)
    return b.reshape_to(box, (*dims[:place], *dims[place + 1 :]))


def _updated(
    b: Builder,
    whole: Instruction,
    value: Instruction,
    at: Instruction,
    zero: Instruction,
    place: int,
) -> Instruction:
    dims = whole.shape.dims
    box = b.reshape_to(value, (*dims[:place], 1, *dims[place + 1 :]))
    starts = [at if n == place else zero for n in range(len(dims))]
    return b.dynamic_update_slice(whole, box, *starts)
