# SPDX-License-Identifier: Apache-2.0
"""What each pass changes, as a unified diff of HLO text: `ingot opt --print-changed`.

Metadata is left out of the text. A pass that changes nothing prints nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import click

from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext, Stage

See = Callable[[Stage, Module], None]
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class Changes:
    """Prints the difference to the module as it was seen last."""

    def __init__(self) -> None:
        """Begin; the first module that is seen is what the first pass gets."""
        self._before: list[str] | None = None
        self._number = 0

    def see(self, stage: Stage, module: Module) -> None:
        """Print what changed since the last time: by the pass that ran, or between pipelines."""
        after = print_module(module, with_metadata=False).splitlines()
        before, self._before = self._before, after
        if before is None:
            return
        lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
        if not lines:
            return
        self._number += 1
        who = stage.after or f"what stands before the pipeline {stage.pipeline}"
        click.secho(f"*** {self._number}: {who} ({stage.pipeline}) ***", bold=True)
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
