# SPDX-License-Identifier: Apache-2.0
"""`ingot profile`: which kernels of a module, or of a Python program, take the time.

A table on the terminal; with `-o` a trace that Perfetto and Chrome show. A program is run as
`python -m ingot` runs it, and everything that was compiled is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from ingot.client.compile import compile
from ingot.client.profiling.profile import Profile, Profiler
from ingot.client.profiling.profile_table import table
from ingot.client.roofline import measured_machine
from ingot.semantics.device_groups import grid_of
from ingot.tools.programs.options import ModuleOptions, module_options, switch
from ingot.tools.programs.platforms import flat
from ingot.tools.scripts import is_script, nothing_compiled, run_script

_SHOWN = 25


@click.command(name="profile", context_settings={"ignore_unknown_options": True})
@click.argument("file")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@module_options
@click.option("-o", "--output", type=click.Path(), help="Write a trace (JSON) for Perfetto.")
@click.option("--runs", type=click.IntRange(1), default=10, show_default=True,
              help="How often a module is run.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1), default=_SHOWN, show_default=True,
              help="How many kernels and lines are shown.")  # fmt: skip
@switch("--roofline", "Measure this machine, and show each kernel's share of it.", default=True)
def command(
    file: str,
    arguments: Sequence[str],
    given: ModuleOptions,
    output: str | None,
    runs: int,
    limit: int,
    roofline: bool,
) -> int:
    """Profile the module in FILE (- is standard input), or the program FILE.py.

    A program is run with the ARGUMENTS; those with dashes stand behind `--`.
    """
    if is_script(file):
        with Profiler() as profiler:
            run_script(file, arguments)
        if not profiler.profile.runs:
            raise nothing_compiled(file)
        profile = profiler.profile
    elif arguments:
        raise click.UsageError("only a Python program takes arguments")
    else:
        profile = of_module(file, given, runs)
    click.echo(table(profile, measured_machine() if roofline else None, limit))
    if output is not None:
        profile.save(output)
        click.echo(f"wrote {output}: open it at ui.perfetto.dev, or at chrome://tracing")
    return 0


def of_module(file: str, given: ModuleOptions, runs: int) -> Profile:
    """Return the profile of a module on the inputs that the options say; one run is not counted."""
    module = given.load(file)
    rows = [[leaf for value in row for leaf in flat(value)] for row in given.inputs_of(module)]
    executable = compile(module)
    several = grid_of(module).devices > 1

    def run() -> None:
        if several:
            executable.execute_replicated(rows)
        else:
            executable(*rows[0])

    run()
    with Profiler() as profiler:
        for _ in range(runs):
            run()
    return profiler.profile
