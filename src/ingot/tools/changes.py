# SPDX-License-Identifier: Apache-2.0
"""What each pass changes, as a unified diff: `ingot opt --print-changed`.

Passes of modules change HLO text, from which metadata is left out; kernel passes change kernel IR.
A pass that changes nothing prints nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import click

from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext, Stage
from ingot.kernel.ir import LoopKernel
from ingot.kernel.text import kernel_text

See = Callable[[Stage, object], None]
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class Changes:
    """Prints the difference between a module, or a kernel, and what it was before."""

    def __init__(self, *, of_kernels: bool = False) -> None:
        """Begin; what is seen first is the first pass's input.

        Args:
            of_kernels: whether it shows what kernel passes change, too.
        """
        self._of_kernels = of_kernels
        self._before: dict[str, list[str]] = {}
        self._number = 0

    def see(self, stage: Stage, subject: object) -> None:
        """Print what changed since the last time: by the pass that ran, or between pipelines."""
        is_kernel = isinstance(subject, LoopKernel)
        if is_kernel and not self._of_kernels:
            return
        after = _text(subject).splitlines()
        before = self._before.get(stage.label)
        self._before[stage.label] = after
        # The loops of each kernel begin anew; modules go from pipeline to pipeline.
        if before is not None and not (is_kernel and stage.number == 0):
            who = stage.after or f"what stands before the pipeline {stage.pipeline}"
            self._show(f"{who} ({f'{stage.pipeline} {stage.label}'.strip()})", before, after)

    def _show(self, title: str, before: list[str], after: list[str]) -> None:
        lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
        if not lines:
            return
        self._number += 1
        click.secho(f"*** {self._number}: {title} ***", bold=True)
        for line in lines:
            click.secho(line, fg=_COLOURS.get(line[:1]))


def _text(subject: object) -> str:
    if isinstance(subject, Module):
        return print_module(subject, with_metadata=False)
    assert isinstance(subject, LoopKernel), "passes run on modules and on loops"
    return kernel_text(subject)


def seeing(see: See, context: PassContext) -> PassContext:
    """Return the context, which also shows modules and kernels to `see` at each stage."""
    dump = context.dump

    def both(stage: Stage, subject: object) -> None:
        see(stage, subject)
        if dump is not None:
            dump(stage, subject)

    context.dump = both
    return context
