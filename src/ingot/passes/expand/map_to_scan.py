"""map-to-scan: a `map` whose computation holds a loop is run element after element.

Elementwise computations become ops on whole arrays (`map-inliner`), which a loop cannot: each
element has its own number of steps. So these few maps are a `scan` over the elements in a row.
Branches stay branches there, as a loop in one that is not taken need not end.

Source: xla/service/cpu/ir_emitter.cc, which runs `map` element after element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.expand.expander import Expander

_BRANCHES = frozenset({"call", "conditional", "map"})
"""Ops whose computations can be computed for all elements at once."""


@dataclass(frozen=True, slots=True)
class MapToScan(Expander):
    """Rewrites `map` over computations with loops, reductions, sorts or custom calls."""

    name: ClassVar[str] = "map-to-scan"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"map"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the elements' results; `op` itself where there is no loop or no element."""
        mapped: Computation = op.attributes.to_apply
        size = op.shape.size
        if size == 0 or not _has_loop(mapped):
            return op
        rows = [build.reshape_to(operand, (size,)) for operand in op.operands]
        done = build.scan(
            *rows,
            build.constant(0, S32),
            num_carries=1,
            dimensions=(0,),
            to_apply=module.take(_step(mapped)),
        )
        return build.reshape_to(build.element_of(done, 0), op.shape.dims)


def _has_loop(computation: Computation) -> bool:
    for op in computation.instructions:
        if op.opcode == "custom-call" or (op.called_computations and op.opcode not in _BRANCHES):
            return True
        if any(map(_has_loop, op.called_computations)):
            return True
    return False


def _step(mapped: Computation) -> Computation:
    """Return `mapped` with a carry, which a scan must have, that stays the same."""
    b = Builder("map_step")
    elements = [b.parameter(n, one.shape) for n, one in enumerate(mapped.parameters)]
    carry = b.parameter(len(elements), Shape.array(S32, ()))
    return b.build(b.tuple(b.call(*elements, to_apply=mapped), carry))
