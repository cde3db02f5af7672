# SPDX-License-Identifier: Apache-2.0
"""`ingot reduce`: shrinks a program that fails while it fails in the same way.

A failure is an error with its code, a crash, a hang, or other results than the evaluator's; or as a
command of the user's decides. Each trial runs in a child process. A file that is not a module is
cut line by line.

Exit status 0: a reduced program was written; 1: the program does not fail.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import click

from ingot.support.diagnostics import IngotError
from ingot.tools.programs import loading
from ingot.tools.programs.cases import Case
from ingot.tools.programs.options import ModuleOptions, module_options
from ingot.tools.reduction.cutting import cut_lines
from ingot.tools.reduction.graph import reduce_graph
from ingot.tools.reduction.search import Search, Try
from ingot.tools.reduction.trials import SECONDS, Outcome, Trials


@click.command(name="reduce")
@click.argument("file")
@module_options
@click.option("-o", "--output", type=click.Path(), help="File to write; default: print.")
@click.option("--test", "test", metavar="COMMAND",
              help="A program fails if COMMAND, given its path, exits with 0.")  # fmt: skip
@click.option("--max-seconds", default=300.0, show_default=True, help="When to end the search.")
@click.option("--trial-seconds", default=SECONDS, show_default=True,
              help="A trial that takes longer hangs.")  # fmt: skip
def command(
    file: str,
    given: ModuleOptions,
    output: str | None,
    test: str | None,
    max_seconds: float,
    trial_seconds: float,
) -> int:
    """Shrink the failing program in FILE (- is standard input) while it fails in the same way."""
    data = loading.read_bytes(file)
    with Trials(given.bounds, seed=given.seed, seconds=trial_seconds) as trials:
        search = Search(trials.of if test is None else _by_command(test), max_seconds)
        text = _reduced(data, file, given, search)
    if text is None:
        click.echo(f"{file}: the program does not fail", err=True)
        return 1
    loading.write_bytes(text.encode("utf-8", "surrogateescape"), output)
    click.echo(
        f"{file}: {len(data.splitlines())} lines became {len(text.splitlines())} in {search.count} "
        f"trials{', which is when the time was up' if search.is_over else ''}\n"
        f"  it fails with: {search.wanted}\n  {search.detail.splitlines()[0]}",
        err=True,
    )
    return 0


def _reduced(data: bytes, file: str, given: ModuleOptions, search: Search) -> str | None:
    """Return the smallest text found; None if the program does not fail."""
    try:
        module = given.load_data(data, file)
        case = Case(module, tuple(given.inputs_of(module)[0]))
    except IngotError:
        text = data.decode("utf-8", "surrogateescape")
        return cut_lines(text, search.fails) if search.begin(text) else None
    if not search.begin(case.text()):
        return None
    if not search.needs_inputs:
        case = Case(module, None)
    small = reduce_graph(case, lambda one: search.fails(one.text()))
    bare = small.text(with_metadata=False)
    return bare if search.fails(bare) else small.text()


def _by_command(test: str) -> Try:
    """Return a test by a command, which gets the path of a program as its last argument."""

    def attempt(text: str) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="ingot-reduce-") as folder:
            path = Path(folder) / "program.hlo"
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            done = subprocess.run([*test.split(), str(path)], capture_output=True, check=False)
        return Outcome("" if done.returncode else f"{test} exits with 0")

    return attempt
