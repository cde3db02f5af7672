"""`ingot run`: runs modules on a platform and compares the results with another platform's.

What XLA's run_hlo_module does, with its flags. By default Ingot's native code is held against the
evaluator, on random inputs; the exit status is 1 when any element of any output differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import click
from rich.console import Console

from ingot.evaluator import Value
from ingot.hlo.literal import Array
from ingot.support.text import format_seconds
from ingot.tools import loading
from ingot.tools.comparing import Comparison, compare, difference_table
from ingot.tools.literals import literal_text, write_literals
from ingot.tools.options import ModuleOptions, module_options
from ingot.tools.platforms import NONE, PLATFORMS, Program, flat


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one call.

    Attributes:
        given: how to read the modules, what to run them on, how to compare.
        platform: platform under test.
        reference: platform to compare with, or `none`.
        iterations: how often to run, on new inputs each time.
        outputs: file to write the last iteration's outputs to, or nothing.
        print_literals: whether to print inputs and outputs.
    """

    given: ModuleOptions
    platform: str
    reference: str
    iterations: int
    outputs: str
    print_literals: bool


@click.command(name="run")
@click.argument("files", nargs=-1, required=True)
@click.option("--platform", type=click.Choice([*PLATFORMS]), default="cpu", show_default=True)
@click.option("--reference-platform", type=click.Choice([*PLATFORMS, NONE]), default="evaluator",
              show_default=True, help="Compare with this.")  # fmt: skip
@module_options
@click.option("--iterations", default=1, show_default=True, help="Runs, each on new inputs.")
@click.option("--output-literals-file", default="", help="Where to write the outputs.")
@click.option("--print-literals", is_flag=True, help="Print inputs and outputs.")
def command(
    files: Sequence[str],
    given: ModuleOptions,
    platform: str,
    reference_platform: str,
    iterations: int,
    output_literals_file: str,
    print_literals: bool,
) -> int:
    """Run the modules in FILES and compare with a reference platform (- is standard input)."""
    reference = NONE if reference_platform == platform else reference_platform
    options = Options(given, platform, reference, iterations, output_literals_file, print_literals)
    agree = [run_file(path, options) for path in files]
    return 0 if all(agree) else 1


def run_file(path: str, options: Options) -> bool:
    """Run one module as often as asked; return whether the platforms agree."""
    module = loading.load(path, options.given.input_format)
    program = PLATFORMS[options.platform](module)
    reference = None if options.reference == NONE else PLATFORMS[options.reference](module)
    agree = True
    for iteration in range(options.iterations):
        values = options.given.inputs_of(module, iteration)
        if options.print_literals:
            _print_literals("input", [leaf for value in values for leaf in flat(value)])
        agree = run_once(path, program, reference, values, options, iteration) and agree
    return agree


def run_once(
    path: str,
    program: Program,
    reference: Program | None,
    values: list[Value],
    options: Options,
    iteration: int,
) -> bool:
    """Run on some inputs, print what came out; return whether the platforms agree."""
    start = time.perf_counter()
    outputs = program(values)
    seconds = time.perf_counter() - start
    if options.print_literals:
        _print_literals("output", outputs)
    if options.outputs:
        write_literals(options.outputs, outputs)
    times = f" (iteration {iteration})" if options.iterations > 1 else ""
    if reference is None:
        click.echo(f"{path}{times}: {options.platform} ran in {format_seconds(seconds)}")
        return True
    wanted = reference(values)
    found = [
        compare(number, got, want, options.given.bounds)
        for number, (got, want) in enumerate(zip(outputs, wanted, strict=True))
    ]
    title = f"{path}{times}: {options.platform} and {options.reference}"
    return _report(title, found)


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
