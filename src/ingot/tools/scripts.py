# SPDX-License-Identifier: Apache-2.0
"""Python programs as input of commands: they are run as by `python -m ingot`.

`ingot explain`, `ingot diff` and `ingot profile` use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ingot.client.executables.executable import Executable
from ingot.client.profiling.profile import kept_executables
from ingot.support.diagnostics import UnsupportedError
from ingot.tools.script_runner import run_program


def is_script(file: str) -> bool:
    """Whether a file is a Python program, not a module."""
    return file.endswith(".py")


def compiled_by(file: str, arguments: Sequence[str]) -> list[Executable]:
    """Run a program; return the executables that Ingot compiled for the CPU.

    Raises:
        UnsupportedError: INGOT0363, Ingot compiled nothing in it.
        click.ClickException: the program failed.
    """
    with kept_executables() as compiled:
        run_script(file, arguments)
    found = [one for one in compiled.values() if isinstance(one, Executable)]
    if not found:
        raise nothing_compiled(file)
    return found


def run_script(file: str, arguments: Sequence[str]) -> None:
    """Run a program as `python -m ingot` does.

    Raises:
        click.ClickException: the program failed, or there is none.
    """
    if not Path(file).is_file():
        raise click.UsageError(f"there is no file '{file}'")
    try:
        status: object = run_program([file, *arguments])
    except SystemExit as end:
        status = end.code
    if status not in (0, None):
        raise click.ClickException(f"{file} failed: exit status {status}")


def nothing_compiled(file: str) -> UnsupportedError:
    """Return the error for a program of which Ingot compiled nothing."""
    return UnsupportedError(
        f"Ingot compiled nothing in {file}",
        code="INGOT0363",
        hint="mark a tf.function with jit_compile=True, run JAX with JAX_PLATFORMS=ingot, or "
        "compile a module of PyTorch with torch.compile(model, backend='ingot')",
    )
