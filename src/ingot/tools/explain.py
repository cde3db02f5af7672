# SPDX-License-Identifier: Apache-2.0
"""`ingot explain`: reports on the compilation of a module, or of all that a program compiles.

The report is that of `ingot.explain`: text on the terminal, a page or JSON with `-o`.
"""

from __future__ import annotations

from contextlib import nullcontext

import click
from rich.console import Console

from ingot.analysis.network.description import Network
from ingot.client.compile import compile
from ingot.client.profiling.profile import Profiler
from ingot.support.observing import observed
from ingot.tools.jax_cache_misses import explained_misses
from ingot.tools.programs import loading
from ingot.tools.programs.options import switch
from ingot.tools.scripts import compiled_by
from ingot.viz.gather import report_of


@click.command(name="explain", context_settings={"ignore_unknown_options": True})
@click.argument("file")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", type=click.Path(), help="Write a page (.html) or data (.json).")
@click.option("--network", help="Describe a network: say what an execution on it would cost.")
@switch("--json", "Print JSON.")
@switch("--times", "Of a program: record when kernels run, and show the last execution.")
def command(
    file: str,
    arguments: tuple[str, ...],
    output: str | None,
    network: str | None,
    json: bool,
    times: bool,
) -> int:
    """Explain the module in FILE (- is standard input), or all that the program FILE.py compiles.

    A program is run with the ARGUMENTS; those with dashes stand behind `--`.
    """
    described = None if network is None else Network.parse(network)
    if file.endswith(".py"):
        profiler = Profiler()
        recording = profiler if times else nullcontext()
        with observed() as observations, explained_misses(), recording:
            compiled = compiled_by(file, arguments)
        profile = profiler.profile if times else None
        report = report_of(compiled, None, observations, profile, described)
    elif arguments:
        raise click.UsageError("only a Python program takes arguments")
    else:
        report = report_of([compile(loading.load_device(file))], network=described)
    if output is not None:
        report.save(output)
        click.echo(f"wrote {output}")
    elif json:
        click.echo(report.to_json())
    else:
        Console(highlight=False, soft_wrap=True).print(report)
    return 0
