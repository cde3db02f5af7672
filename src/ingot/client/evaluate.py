# SPDX-License-Identifier: Apache-2.0
"""`ingot.evaluate`: the meaning of a program, by the reference interpreter in NumPy."""

from __future__ import annotations

from typing import Any

from ingot import evaluator
from ingot.client.options import ProgramLike, module_of


def evaluate(program: ProgramLike, *args: Any, step_limit: int | None = None) -> Any:
    """Return what a program gives for arguments, without compiling it: slow, and the reference.

    Args:
        program: a module, text, data or path, as `ingot.compile` takes it.
        args: one per parameter of the entry, a tuple for a tuple.
        step_limit: how many iterations all loops together may take; default: any number.

    Raises:
        ParseError: the text or data is no program.
        ResourceError: INGOT0251, loops take more iterations than `step_limit`.
        VerifyError: INGOT0252, an argument does not have its parameter's shape; or the program is
            not valid HLO.
    """
    return evaluator.evaluate(module_of(program), args, step_limit=step_limit)
