# SPDX-License-Identifier: Apache-2.0
"""Checks at run time: a program ends with an error unless all flags of an array are true."""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion


def assert_everywhere(b: ArrayBuilder, flags: Instruction, message: str) -> None:
    """Let the program fail unless all flags are true."""
    emit_assertion(b, b.reduced("and", flags, range(flags.shape.rank)), message)
