# SPDX-License-Identifier: Apache-2.0
"""`ingot explain`: shows what the compiler made of a module, or of all that a program compiles.

The report is that of `ingot.explain`: text on the terminal, a page or JSON with `-o`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from ingot.__main__ import main
from ingot.client.compile import compile
from ingot.client.profile import kept_executables
from ingot.support.diagnostics import UnsupportedError
from ingot.tools import loading
from ingot.tools.options import switch
from ingot.viz.gather import report_of
from ingot.viz.report import Report


@click.command(name="explain", context_settings={"ignore_unknown_options": True})
@click.argument("file")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", type=click.Path(), help="Write a page (.html) or data (.json).")
@switch("--json", "Print JSON.")
def command(file: str, arguments: tuple[str, ...], output: str | None, json: bool) -> int:
    """Explain the module in FILE (- is standard input), or all that the program FILE.py compiles.

    A program is run with the ARGUMENTS; those with dashes stand behind `--`.
    """
    if file.endswith(".py"):
        report = _of_script(file, arguments)
    elif arguments:
        raise click.UsageError("only a Python program takes arguments")
    else:
        report = report_of([compile(loading.load(file))])
    if output is not None:
        report.save(output)
        click.echo(f"wrote {output}")
    elif json:
        click.echo(report.to_json())
    else:
        Console(highlight=False, soft_wrap=True).print(report)
    return 0


def _of_script(file: str, arguments: Sequence[str]) -> Report:
    """Run a program as `python -m ingot` does; return the report of all that was compiled.

    Raises:
        UnsupportedError: INGOT0363, Ingot compiled nothing of it.
        click.ClickException: the program failed.
    """
    if not Path(file).is_file():
        raise click.UsageError(f"there is no file '{file}'")
    with kept_executables() as compiled:
        try:
            status: object = main([file, *arguments])
        except SystemExit as end:
            status = end.code
    if status not in (0, None):
        raise click.ClickException(f"{file} failed: exit status {status}")
    if not compiled:
        raise UnsupportedError(
            f"Ingot compiled nothing of {file}",
            code="INGOT0363",
            hint="mark a tf.function with jit_compile=True, or run JAX with JAX_PLATFORMS=ingot",
        )
    return report_of(list(compiled.values()))
