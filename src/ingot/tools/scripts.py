# SPDX-License-Identifier: Apache-2.0
"""Python programs as input of the commands: run as `python -m ingot` does, for what they compile.

Beneath `ingot explain`, `ingot diff` and `ingot profile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ingot.__main__ import main
from ingot.client.executable import Executable
from ingot.client.profile import kept_executables
from ingot.support.diagnostics import UnsupportedError


def is_script(file: str) -> bool:
    """Whether a file is a Python program, not a module."""
    return file.endswith(".py")


def compiled_by(file: str, arguments: Sequence[str]) -> list[Executable]:
    """Run a program; return what Ingot compiled of it for the CPU.

    Raises:
        UnsupportedError: INGOT0363, Ingot compiled nothing of it.
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
        status: object = main([file, *arguments])
    except SystemExit as end:
        status = end.code
    if status not in (0, None):
        raise click.ClickException(f"{file} failed: exit status {status}")


def nothing_compiled(file: str) -> UnsupportedError:
    """Return the error of a program of which Ingot compiled nothing."""
    return UnsupportedError(
        f"Ingot compiled nothing of {file}",
        code="INGOT0363",
        hint="mark a tf.function with jit_compile=True, run JAX with JAX_PLATFORMS=ingot, or "
        "compile a module of PyTorch with torch.compile(model, backend='ingot')",
    )
