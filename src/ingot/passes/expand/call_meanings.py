# SPDX-License-Identifier: Apache-2.0
"""Custom calls that mean an ordinary computation, as that computation (`semantics/call_meanings`).

It runs before `dynamic_padder`: TensorFlow's windows over dimensions of dynamic size become ops on
such dimensions, which that pass rewrites.

Invariant: afterwards no call is left whose computation is known.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import Expander
from ingot.passes.simplify.inline import inline
from ingot.semantics.call_meanings import meaning_of
from ingot.support.records import record


@record
class CallMeanings(Expander):
    """Replaces custom calls by the computations that they mean."""

    name = "call-meanings"
    concerns = frozenset({"custom-call"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the computation's result; the call itself if it is foreign."""
        meaning = meaning_of(op)
        if meaning is None:
            return op
        for called in {c for i in meaning.instructions for c in i.called_computations}:
            module.take(called)
        return inline(op.computation, meaning, op.operands)
