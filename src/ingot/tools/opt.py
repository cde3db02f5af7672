"""`ingot opt`: runs passes, or the pipeline up to a stage, on a module and prints the result.

What hlo-opt does. `--passes` runs exactly these passes, in order; `--stage` compiles for a platform
and prints the program at a stage of the way; without either, the module after all HLO passes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ingot.client.compile import compile, default_context
from ingot.client.executable import Executable
from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.hlo.rewrite.runner import run_passes
from ingot.hlo.verifier import verify
from ingot.tools import loading
from ingot.tools.passes import make, option_text, options_of, registry, split_list, summary

STAGES: dict[str, str] = {
    "hlo-before": "hlo_before",
    "hlo": "hlo",
    "kernel": "kernel",
    "llvm": "llvm",
    "llvm-optimized": "llvm_optimized",
    "asm": "assembly",
    "buffers": "buffers",
}
"""Name of a stage -> what `Executable.as_text` calls it."""

LOGS = {"fusions": "fusion_log", "rewrites": "rewrites"}
"""Stages that are not the program but why it became so."""


@click.command(name="opt")
@click.argument("file", required=False)
@click.option("--passes", default="", metavar="A,B{OPTION=VALUE}", help="Passes, in order.")
@click.option("--list-passes", is_flag=True, help="List every pass with its options.")
@click.option("--stage", type=click.Choice([*STAGES, *LOGS]), help="Stage to print.")
@click.option("--platform", type=click.Choice(["cpu"]), default="cpu", help="Compile for this.")
@click.option("--input-format", type=click.Choice([*loading.READERS]), help="Default: by name.")
@click.option("--no-metadata", is_flag=True, help="Leave metadata={...} out of HLO text.")
@click.option("-o", "--output", type=click.Path(), help="File to write; default: print.")
@click.pass_context
def command(
    context: click.Context,
    file: str | None,
    passes: str,
    list_passes: bool,
    stage: str | None,
    platform: str,
    input_format: str | None,
    no_metadata: bool,
    output: str | None,
) -> int:
    """Run passes or the pipeline up to a stage on the module in FILE (- is standard input)."""
    if list_passes:
        show_passes()
        return 0
    if file is None:
        context.fail("give the FILE of a module; - is standard input")
    if passes and stage:
        context.fail("--passes and --stage exclude each other")
    module = loading.load(file, input_format or "")
    if passes:
        text = after_passes(module, passes, with_metadata=not no_metadata)
    else:
        text = at_stage(compile(module), stage or "hlo")
    write(text, output)
    return 0


def after_passes(module: Module, passes: str, *, with_metadata: bool = True) -> str:
    """Return the module's text after passes given as `a,b{option=value}`."""
    chosen = tuple(make(name) for name in split_list(passes))
    verify(module)
    run_passes(Pipeline("opt", chosen), module, default_context())
    return print_module(module, with_metadata=with_metadata)


def at_stage(executable: Executable, stage: str) -> str:
    """Return the text of a stage."""
    if stage in LOGS:
        return "".join(f"{line}\n" for line in getattr(executable, LOGS[stage]))
    return executable.as_text(STAGES[stage])


def show_passes() -> None:
    """Print the registry of passes."""
    table = Table(box=None, pad_edge=False)
    for title in ("pass", "options", "what it does"):
        table.add_column(title)
    for name, found in registry().items():
        table.add_row(name, ", ".join(map(option_text, options_of(found))), summary(found))
    width = None if sys.stdout.isatty() else 160
    Console(width=width, highlight=False, markup=False).print(table)


def write(text: str, output: str | None) -> None:
    """Print a text, or write it to a file."""
    if output:
        Path(output).write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=not text.endswith("\n"))
