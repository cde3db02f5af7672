# SPDX-License-Identifier: Apache-2.0
"""`ingot diff`: where a compiled program's values leave the reference's, and what made them do so.

Names the first instruction whose value differs from the evaluator's, its place in the user's
program, the pass and the rule that changed it, and writes a reproducer that runs alone. Of a Python
program everything that it compiles is looked at.

Exit status 0: all agree; 1: something differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ingot.hlo.module import Module
from ingot.tools import bisect
from ingot.tools.comparing import Bounds
from ingot.tools.first_difference import Difference, compared, first_difference
from ingot.tools.loading import write_bytes
from ingot.tools.options import ModuleOptions, module_options
from ingot.tools.reduction.cases import Case
from ingot.tools.reduction.graph import reduce_graph
from ingot.tools.reduction.search import Search
from ingot.tools.reduction.subgraph import cleaned
from ingot.tools.reduction.trials import Trials
from ingot.tools.scripts import compiled_by, is_script


@click.command(name="diff", context_settings={"ignore_unknown_options": True})
@click.argument("file")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@module_options
@click.option("-o", "--output", type=click.Path(), default="ingot-diff.hlo", show_default=True,
              help="Where to write the reproducer.")  # fmt: skip
@click.option("--max-seconds", default=60.0, show_default=True,
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
        modules = [one.source for one in compiled_by(file, arguments)]
    elif arguments:
        raise click.UsageError("only a Python program takes arguments")
    else:
        modules = [given.load(file)]
    differs = False
    for number, module in enumerate(modules):
        title = file if len(modules) == 1 else f"{file}: {module.name}"
        path = Path(output) if len(modules) == 1 else _numbered(Path(output), number)
        case = Case(module, tuple(given.inputs_of(module)[0]))
        differs = not _agrees(title, case, given.bounds, str(path), max_seconds) or differs
    return 1 if differs else 0


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def _agrees(title: str, case: Case, bounds: Bounds, path: str, seconds: float) -> bool:
    """Look at one program; return whether its results agree, else say what is known."""
    results = compared(case, bounds)
    wrong = [one for one in results if not one.agrees]
    tolerance = f"absolute {bounds.absolute:g} or relative {bounds.relative:g}"
    if not wrong:
        worst = max((one.worst[0] for one in results), default=0.0)
        click.echo(f"{title}: all results agree within {tolerance}: greatest error {worst:.3g}")
        return True
    click.echo(f"{title}: output {wrong[0].output} differs in {wrong[0]} (allowed: {tolerance})")
    found = first_difference(case, bounds)
    if found is None:
        click.echo("no instruction differs once its value is a result: it depends on the fusion")
    else:
        click.echo("\n".join(description(found)))
    small = reproducer(case if found is None else found.case, found, bounds, seconds)
    assert small.inputs is not None
    trial = bisect.Trial([list(small.inputs)], bounds, small.module)
    click.echo(f"what made it so: {bisect.find(small.module, trial) or 'not found'}")
    flags = f"--abs-error-bound={bounds.absolute:g} --rel-error-bound={bounds.relative:g}"
    write_bytes(small.text().encode("utf-8", "surrogateescape"), path)
    click.echo(f"reproducer: ingot run {path} {flags}")
    return False


def description(found: Difference) -> list[str]:
    """Return in lines what is known of the instruction that differs."""
    item, metadata = found.instruction, found.instruction.metadata
    lines = [f"first instruction that differs: {item!r}"]
    lines += [f"  in {where}" for where in found.inside]
    if metadata.location is not None:
        lines.append(f"  at {metadata.location}")
    if metadata.op_name:
        lines.append(f"  op: {metadata.op_name}")
    lines.append(f"  it differs in {found.how}")
    if found.adds_up:
        lines.append("  none of its iterations differs by itself: the differences add up")
    if found.from_operands is None or found.adds_up:
        return lines
    if found.from_operands.agrees:
        error = found.from_operands.worst[0]
        lines.append(
            f"  its operands differ within what is allowed, and it makes that more: from the "
            f"compiled\n  operands the evaluator gives the same (greatest error {error:.3g})"
        )
    else:
        lines.append("  from the same operands the evaluator gives another value")
    return lines


def reproducer(case: Case, found: Difference | None, bounds: Bounds, seconds: float) -> Case:
    """Return a small program that still differs: the instruction alone if it does."""
    if found is not None and found.alone is not None and _still(found.alone, bounds):
        return found.alone
    start = case if found is None else _up_to(found)
    if not _still(start, bounds):
        start = case
    with Trials(bounds) as trials:
        search = Search(trials.of, seconds)
        if not search.begin(start.text()):
            return start
        return reduce_graph(start, lambda one: search.fails(one.text()))


def _still(case: Case, bounds: Bounds) -> bool:
    return any(not one.agrees for one in compared(case, bounds))


def _up_to(found: Difference) -> Case:
    """Return the program whose one result is the value that differs."""
    module: Module = found.case.module.clone()
    entry = module.entry
    entry.set_root(next(one for one in entry.instructions if one.name == found.instruction.name))
    return cleaned(Case(module, found.case.inputs, (None,)))
