# SPDX-License-Identifier: Apache-2.0
"""`ingot bisect`: finds the pass, and the rewrite in it, that changes what a module computes.

The evaluator gives the reference result of the original module. Copies of it go through different
numbers of the pipeline's passes, and the evaluator runs each copy: the first pass after which the
result differs is to blame, and in it the first rule that fired. If there is none, the machine code
is compared with the evaluator, with more and fewer kernel passes: the answer may be one of these,
or code generation, or that nothing differs.

Exit status 0: all agree; 1: something differs, which is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click

from ingot.client.compilation import default_context
from ingot.cpu.pipeline import PIPELINE
from ingot.evaluator import Value
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.hlo.rewrite.bisect import Culprit, find_culprit, first_bad
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.kernel.passes.pipeline import PIPELINE_NAME
from ingot.support.diagnostics import IngotError
from ingot.tools.programs.comparing import Bounds, compare
from ingot.tools.programs.options import ModuleOptions, module_options
from ingot.tools.programs.platforms import PLATFORMS, cpu_program

MOST_PASSES = 1 << 30
"""Fuel that never runs out: with a limit, no kernel of another compilation is used."""


@click.command(name="bisect")
@click.argument("file")
@module_options
def command(file: str, given: ModuleOptions) -> int:
    """Find the pass that changes what the module in FILE computes (- is standard input)."""
    module = given.load(file)
    trial = Trial(given.inputs_of(module), given.bounds, module)
    answer = find(module, trial)
    click.echo(f"{file}: {answer or 'passes and machine code keep what it means'}")
    return 1 if answer else 0


class Trial:
    """Compares the results of modules with those of the original.

    Attributes:
        found: how the last module that differed did so.
    """

    def __init__(self, values: list[list[Value]], bounds: Bounds, module: Module) -> None:
        self._values = values
        self._bounds = bounds
        self._wanted: list[Array] = PLATFORMS["evaluator"](module)(values)
        self.found = ""

    def is_bad(self, module: Module) -> bool:
        """Whether a module has other results by the evaluator, or cannot be run."""
        return self._differs(lambda: PLATFORMS["evaluator"](module)(self._values))

    def is_badly_compiled(self, module: Module, context: PassContext) -> bool:
        """Whether a module cannot be compiled, or its machine code has other results."""
        return self._differs(lambda: cpu_program(module, context)(self._values))

    def _differs(self, run: Callable[[], list[Array]]) -> bool:
        try:
            outputs = run()
        except IngotError as error:
            self.found = f"it cannot be run: {error.diagnostic.message}"
            return True
        for number, (got, want) in enumerate(zip(outputs, self._wanted, strict=True)):
            result = compare(number, got, want, self._bounds)
            if not result.agrees:
                self.found = f"output {number} differs in {result}"
                return True
        return False


def find(module: Module, trial: Trial) -> str:
    """Return the pass or rule that changes the result, and how it differs; "" if nothing does."""
    context = replace(default_context(), verify_each=True)
    try:
        culprit = find_culprit(module, PIPELINE, trial.is_bad, context)
    except IngotError as error:
        return f"a pass fails:\n{error.diagnostic.render()}"
    if culprit is not None:
        return f"{_name(culprit)}\n  {trial.found}"
    whole = default_context()
    whole.pass_fuel = MOST_PASSES
    if trial.is_badly_compiled(module, whole):
        return f"{_blame(module, trial, whole)}\n  {trial.found}"
    return ""


def _blame(module: Module, trial: Trial, whole: PassContext) -> str:
    """Return the cause of wrong machine code; `whole` has the record of all passes."""
    first = next((n for n, row in enumerate(whole.timings) if row.pipeline == PIPELINE_NAME), None)
    if first is None:
        return "every pass keeps what it means; the machine code does not"

    def is_bad(count: int) -> bool:
        context = default_context()
        context.pass_fuel = first + count
        return trial.is_badly_compiled(module, context)

    count = first_bad(len(whole.timings) - first, is_bad)
    if count == 0:
        return "every pass keeps what it means; the machine code does not"
    name = whole.timings[first + count - 1].name
    is_bad(count)
    return f"kernel pass {count}, {name}, changes what a kernel means"


def _name(culprit: Culprit) -> str:
    text = f"pass {culprit.pass_number}, {culprit.pass_name}, changes what it means"
    return text if culprit.firing is None else f"{text}\n  by the rule {culprit.firing}"
