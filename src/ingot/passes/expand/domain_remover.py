# SPDX-License-Identifier: Apache-2.0
"""`domain` removed: it marks the border of a placement region and computes nothing.

Source: xla/hlo/transforms/hlo_domain_remover.cc.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import Expander
from ingot.support.records import record


@record
class DomainRemover(Expander):
    """Replaces `domain` by its operand."""

    name = "domain_remover"
    concerns = frozenset({"domain"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the operand."""
        return op.operands[0]
