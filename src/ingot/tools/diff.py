# SPDX-License-Identifier: Apache-2.0
"""`ingot diff`: the first value of a compiled program that differs from the reference's, and why.

It names the first instruction whose value differs from the evaluator's, its location in the user's
program, and the pass and the rule that changed it, and writes a reproducer that runs alone. For a
Python program, each compiled function of JAX and TensorFlow is compared with the framework without
compilation (`function_diff`), and each module that `ingot.compile` gets with the evaluator.

Exit status 0: all agree; 1: something differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ingot.client.profiling.profile import kept_executables
from ingot.tools.diffs.differences import SECONDS, Diff, diff_case
from ingot.tools.diffs.function_hooks import compared_functions
from ingot.tools.programs.cases import Case
from ingot.tools.programs.options import ModuleOptions, module_options
from ingot.tools.scripts import is_script, nothing_compiled, run_script


@click.command(name="diff", context_settings={"ignore_unknown_options": True})
@click.argument("file")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@module_options
@click.option("-o", "--output", type=click.Path(), default="ingot-diff.hlo", show_default=True,
              help="Where to write the reproducer.")  # fmt: skip
@click.option("--max-seconds", default=SECONDS, show_default=True,
              help="How long to make the reproducer smaller.")  # fmt: skip
def command(
    file: str,
    arguments: Sequence[str],
    given: ModuleOptions,
    output: str,
    max_seconds: float,
) -> int:
    """Find the first value that differs of the module in FILE, or of what FILE.py compiles.

    A program is run with the ARGUMENTS; those with dashes stand behind `--`.
    """
    if is_script(file):
        found = of_script(file, arguments, given, max_seconds)
    elif arguments:
        raise click.UsageError("only a Python program takes arguments")
    else:
        module = given.load(file)
        case = Case(module, tuple(given.inputs_of(module)[0]))
        found = iter([diff_case(file, case, given.bounds, max_seconds)])
    differs, path = 0, Path(output)
    for diff in found:
        click.echo(str(diff))
        differs += not diff.agrees
        if diff.reproducer:
            numbered = path if differs == 1 else path.with_stem(f"{path.stem}-{differs}")
            click.echo(f"reproducer: {diff.save(numbered)}")
    return 1 if differs else 0


def of_script(
    file: str, arguments: Sequence[str], given: ModuleOptions, seconds: float
) -> Iterator[Diff]:
    """Run a program; yield the comparison of each function or module that it compiled.

    Raises:
        UnsupportedError: INGOT0363, Ingot compiled nothing in it.
        click.ClickException: the program failed.
    """
    with kept_executables() as compiled, compared_functions(given.bounds, seconds) as functions:
        run_script(file, arguments)
        executables = list(compiled.values())
    if not executables and not functions:
        raise nothing_compiled(file)
    yield from functions
    for executable in executables if not functions else ():
        module = executable.source
        case = Case(module, tuple(given.inputs_of(module)[0]))
        yield diff_case(f"{file}: {module.name}", case, given.bounds, seconds)
