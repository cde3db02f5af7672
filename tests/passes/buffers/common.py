# SPDX-License-Identifier: Apache-2.0
"""Shared by the buffer tests: the passes up to an assignment, checked in every way there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.passes.buffers.arena_machine import ArenaMachine

from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.hlo.shape import Shape
from ingot.passes.buffers.assignment import assign_buffers
from ingot.passes.buffers.buffer_table import BufferAssignment
from ingot.passes.buffers.pipeline import BUFFER_PASSES
from ingot.passes.buffers.verify import verify_assignment


def prepare(module: Module) -> BufferAssignment:
    """Run the passes on `module`, assign and verify."""
    run_passes(BUFFER_PASSES, module, PassContext(debug=1))
    for computation, order in module.schedule.items():
        assert sorted(i.name for i in order) == sorted(i.name for i in computation.instructions)
    assignment = assign_buffers(module)
    verify_assignment(module, module.schedule, assignment)
    return assignment


def check(
    module: Module, inputs: Sequence[Any], sizes: dict[str, int] | None = None
) -> BufferAssignment:
    """Prepare `module` and compare an execution on its buffers with plain evaluation."""
    expected = evaluate(module, inputs, step_limit=1000)
    assignment = prepare(module)
    actual = ArenaMachine(module, assignment, sizes).run(inputs)
    for have, want in zip(actual, flat(expected), strict=True):
        np.testing.assert_array_equal(have, want)
    return assignment


def flat(value: Any) -> list[Any]:
    """Return the arrays of a value."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple) else [value]


def copies(computation: Computation) -> int:
    """Return how many copies a computation has."""
    return sum(i.opcode == "copy" for i in computation.instructions)


def array_shape(*dims: int, element: str = "f32") -> Shape:
    return Shape.array(element, dims)


def counting_condition(state: Shape, limit: int = 3, index: int = 0) -> Computation:
    """Return the condition `state[index] < limit`."""
    b = Builder("condition")
    counter = b.get_tuple_element(b.parameter(0, state), index=index)
    return b.build(b.compare(counter, b.constant(limit, "s32"), direction="LT"))


def elements(b: Builder, value: Instruction) -> list[Instruction]:
    """Return every element of a tuple-shaped instruction."""
    return [b.get_tuple_element(value, index=n) for n in range(len(value.shape.elements))]
