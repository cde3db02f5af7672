# SPDX-License-Identifier: Apache-2.0
"""`ingot.evaluate`: the meaning of a program, by the reference interpreter in NumPy."""

from __future__ import annotations

from typing import Any

from ingot.client.options import ProgramLike, module_of


def evaluate(program: ProgramLike, *args: Any, step_limit: int | None = None) -> Any:
    """Return a program's results by the reference interpreter, without compiling it; this is slow.

    Args:
        program: a module, text, data or path, as `ingot.compile` takes it.
        args: one for each parameter of the entry; tuples for tuples.
        step_limit: the most iterations of all loops together; default: no limit.

    Raises:
        ParseError: the text or data is no program.
        ResourceError: INGOT0251, loops take more iterations than `step_limit`.
        VerifyError: INGOT0252, an argument does not have its parameter's shape; or the program is
            not valid HLO.
    """
    from ingot import evaluator
    from ingot.runtime.foreign.builtin import register_builtin_targets

    register_builtin_targets()
    return evaluator.evaluate(module_of(program), args, step_limit=step_limit)
