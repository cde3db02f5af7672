# SPDX-License-Identifier: Apache-2.0
"""What each pass changes, as a unified diff: `ingot opt --print-changed`.

Passes of modules change HLO text, from which metadata is left out; kernel passes change kernel IR.
A pass that changes nothing prints nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import click

from ingot.client.executable import Executable
from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext, Stage
from ingot.kernel.loop.pipeline import PIPELINE_NAME
from ingot.kernel.lowering import BUILT

See = Callable[[Stage, Module], None]
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class Changes:
    """Prints the difference between a module and the last one that it saw."""

    def __init__(self) -> None:
        """Begin; the first module that is seen is the first pass's input."""
        self._before: list[str] | None = None
        self._number = 0

    def see(self, stage: Stage, module: Module) -> None:
        """Print what changed since the last time: by the pass that ran, or between pipelines."""
        after = print_module(module, with_metadata=False).splitlines()
        before, self._before = self._before, after
        if before is not None:
            who = stage.after or f"what stands before the pipeline {stage.pipeline}"
            self._show(f"{who} ({stage.pipeline})", before, after)

    def see_kernels(self, executable: Executable) -> None:
        """Print what the kernel passes changed in each kernel of a program."""
        before: list[str] = []
        for name, stage, text in executable.kernel_set.history():
            after = text.splitlines()
            if stage != BUILT:
                self._show(f"{stage} ({PIPELINE_NAME} {name})", before, after)
            before = after

    def see_kernel(self, pass_name: str, kernel_name: str, before: str, after: str) -> None:
        """Print what a pass changed in the text of one kernel."""
        title = f"{pass_name} ({f'{PIPELINE_NAME} {kernel_name}'.strip()})"
        self._show(title, before.splitlines(), after.splitlines())

    def _show(self, title: str, before: list[str], after: list[str]) -> None:
        lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
        if not lines:
            return
        self._number += 1
        click.secho(f"*** {self._number}: {title} ***", bold=True)
        for line in lines:
            click.secho(line, fg=_COLOURS.get(line[:1]))


def seeing(see: See, context: PassContext) -> PassContext:
    """Return the context, which also shows the module to `see` at each stage."""
    dump = context.dump

    def both(stage: Stage, module: Module) -> None:
        see(stage, module)
        if dump is not None:
            dump(stage, module)

    context.dump = both
    return context
