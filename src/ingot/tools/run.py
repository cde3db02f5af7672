# SPDX-License-Identifier: Apache-2.0
"""`ingot run`: runs modules on a platform and compares the results with another platform's.

It does what XLA's run_hlo_module does, with its flags. By default Ingot's native code is compared
with the evaluator, on random inputs; the exit status is 1 if any element of any output differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import field

import click
from rich.console import Console

from ingot.evaluator import Value
from ingot.formats.hlo_proto import Snapshot, print_snapshot
from ingot.formats.hlo_proto.literals import IterationLiterals
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.support.flags import RANDOM_SEED, override
from ingot.support.records import record
from ingot.support.text import format_seconds
from ingot.tools.programs.comparing import Comparison, compare, difference_table
from ingot.tools.programs.isolated import isolated
from ingot.tools.programs.literals import as_literal, literal_text, write_iterations, write_literals
from ingot.tools.programs.loading import write_bytes
from ingot.tools.programs.options import ModuleOptions, module_options, switch
from ingot.tools.programs.platforms import NONE, PLATFORMS, Program, flat

_ALIASES = {"interpreter": "evaluator", "default": "evaluator", "": NONE}
"""run_hlo_module's names of platforms -> our names."""


@record
class Options:
    """The options of one call.

    Attributes:
        given: how to read the modules, what to run them on, how to compare.
        platform: platform under test.
        reference: platform to compare with, or `none`.
        iterations: the number of runs, on new inputs each time.
        outputs: file for the outputs (a `.pb` file has those of all iterations), or "".
        snapshot: file for the module with its inputs and outputs, or "".
        print_literals: whether to print inputs and outputs.
        isolate: whether to run each instruction alone.
        seeds: whether each iteration has a seed of its own for the program's random numbers.
        kept: the literals for a `.pb` file.
    """

    given: ModuleOptions
    platform: str
    reference: str
    iterations: int
    outputs: str
    snapshot: str
    print_literals: bool
    isolate: bool
    seeds: bool
    kept: list[IterationLiterals] = field(default_factory=list[IterationLiterals])


def _platform(context: click.Context, option: click.Parameter, given: str) -> str:
    """Return our name of a platform."""
    name = _ALIASES.get(given.lower(), given.lower())
    known = (*PLATFORMS, NONE) if option.name == "reference_platform" else tuple(PLATFORMS)
    if name not in known:
        text = f"'{given}' is not one of {', '.join(known)}"
        raise click.BadParameter(text, ctx=context, param=option)
    return name


@click.command(name="run")
@click.argument("files", nargs=-1, required=True)
@click.option("--platform", callback=_platform, default="cpu", show_default=True,
              help=f"Run on this: {', '.join(PLATFORMS)}.")  # fmt: skip
@click.option("--reference-platform", callback=_platform, default="evaluator", show_default=True,
              help=f"Compare with this: {', '.join(PLATFORMS)}, {NONE}.")  # fmt: skip
@module_options
@click.option("--iterations", default=1, show_default=True, help="Runs, each on new inputs.")
@click.option("--output-literals-file", default="", help="Where to write the outputs.")
@click.option("--output-snapshot", default="",
              help="Where to write an HloSnapshot: module, inputs, outputs.")  # fmt: skip
@switch("--print-literals", "Print inputs and outputs.")
@switch("--isolate-instructions", "Run and compare every instruction alone.")
@switch("--different-random-seeds", "A seed for each iteration's `rng` ops.")
def command(
    files: Sequence[str],
    given: ModuleOptions,
    platform: str,
    reference_platform: str,
    iterations: int,
    output_literals_file: str,
    output_snapshot: str,
    print_literals: bool,
    isolate_instructions: bool,
    different_random_seeds: bool,
) -> int:
    """Run the modules in FILES and compare with a reference platform (- is standard input)."""
    if output_snapshot and (len(files) > 1 or iterations > 1 or isolate_instructions):
        raise click.UsageError("a snapshot holds one execution: give one module, run once")
    options = Options(
        given,
        platform,
        NONE if reference_platform == platform else reference_platform,
        iterations,
        output_literals_file,
        output_snapshot,
        print_literals,
        isolate_instructions,
        different_random_seeds,
    )
    agree = [run_file(path, options) for path in files]
    if options.outputs.endswith(".pb"):
        write_iterations(options.outputs, options.kept)
    return 0 if all(agree) else 1


def run_file(path: str, options: Options) -> bool:
    """Run one module, or its instructions, for all iterations; return whether platforms agree."""
    module = options.given.load(path)
    if not options.isolate:
        return run_module(path, module, options)
    agree = [run_module(f"{path}: {one.name}", one, options) for one in isolated(module)]
    return all(agree)


def run_module(title: str, module: Module, options: Options) -> bool:
    """Run a module for all iterations; return whether the platforms agree."""
    agree, programs = True, _programs(module, options)
    for iteration in range(options.iterations):
        if options.seeds:
            with override(RANDOM_SEED, iteration + 1):
                programs = _programs(module, options)
        rows = options.given.inputs_of(module, iteration)
        if options.print_literals:
            _print_literals(
                "input", [leaf for row in rows for value in row for leaf in flat(value)]
            )
        times = f" (iteration {iteration})" if options.iterations > 1 else ""
        agree = run_once(f"{title}{times}", module, *programs, rows, options) and agree
    return agree


def _programs(module: Module, options: Options) -> tuple[Program, Program | None]:
    made = PLATFORMS[options.platform](module)
    return made, None if options.reference == NONE else PLATFORMS[options.reference](module)


def run_once(
    title: str,
    module: Module,
    program: Program,
    reference: Program | None,
    rows: list[list[Value]],
    options: Options,
) -> bool:
    """Run on some inputs and print the outputs; return whether the platforms agree."""
    start = time.perf_counter()
    outputs = program(rows)
    seconds = time.perf_counter() - start
    if options.print_literals:
        _print_literals("output", outputs)
    if options.outputs and not options.outputs.endswith(".pb"):
        write_literals(options.outputs, outputs)
    if options.snapshot:
        arguments = tuple(map(as_literal, rows[0]))
        result = as_literal(_result(outputs))
        snapshot = Snapshot(module, arguments, result, options.platform)
        write_bytes(print_snapshot(snapshot), options.snapshot)
    wanted = None if reference is None else reference(rows)
    if options.outputs.endswith(".pb"):
        both = (None if one is None else as_literal(_result(one)) for one in (outputs, wanted))
        options.kept.append(IterationLiterals(tuple(map(as_literal, rows[0])), *both))
    if wanted is None:
        click.echo(f"{title}: {options.platform} ran in {format_seconds(seconds)}")
        return True
    found = [
        compare(number, got, want, options.given.bounds)
        for number, (got, want) in enumerate(zip(outputs, wanted, strict=True))
    ]
    return _report(f"{title}: {options.platform} and {options.reference}", found)


def _result(leaves: list[Array]) -> Value:
    """Return a program's result: one array, or all of them as a tuple."""
    return leaves[0] if len(leaves) == 1 else tuple(leaves)


def _report(title: str, found: list[Comparison]) -> bool:
    if all(one.agrees for one in found):
        absolute = max((one.worst[0] for one in found), default=0.0)
        count = f"{len(found)} output{'s' * (len(found) != 1)}"
        click.echo(f"{title} agree: {count}, greatest error {absolute:.3g}")
        return True
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False)
    console.print(difference_table(f"{title} differ", found))
    return False


def _print_literals(what: str, values: list[Array]) -> None:
    for number, value in enumerate(values):
        click.echo(f"{what} {number}: {literal_text(value)}")
