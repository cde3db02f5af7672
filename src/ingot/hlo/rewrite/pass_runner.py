# SPDX-License-Identifier: Apache-2.0
"""One pass at a time, of any IR: what a runner does for every pass that it runs.

`rewrite.runner` runs passes on modules, `kernel.passes.pipeline` on kernels. They say how a pass is
applied and what a valid result is; which pass comes next is theirs too. Fuel, names that are left
out, times, the log, the verifier and dumps are here, so they are the same for both.

Invariant: after every pass that changed something (`PassContext.verify_each`) the subject is valid,
or the error names that pass. A dump has the subject before the first pass that ran, and after each
that changed it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ingot.hlo.rewrite.pass_base import PassContext, PassTiming, Stage
from ingot.support.diagnostics import IngotError
from ingot.support.records import replace
from ingot.support.tracing import Level, enabled, log

S = TypeVar("S")
"""What passes run on."""
P = TypeVar("P")
"""A pass."""


class PassRunner(ABC, Generic[S, P]):
    """Runs passes on one subject.

    Attributes:
        subject: the module or kernel, as the last pass left it.
        context: which passes run, and the records of those that did.
    """

    def __init__(self, subject: S, context: PassContext, label: str = "") -> None:
        """Begin with the subject as it is.

        Args:
            subject: what the passes run on.
            context: which of them run, and what is recorded.
            label: tells the subject from others of the same pipeline in dumps and logs.
        """
        self.subject = subject
        self.context = context
        self._label = label
        self._number = 0
        self._logs = enabled(Level.PASS)

    @abstractmethod
    def apply(self, step: P) -> bool:
        """Run a pass on the subject; return whether it changed it."""

    @abstractmethod
    def verify(self, pass_name: str) -> None:
        """Raise an error that names the pass if the subject is not valid."""

    def run_pass(self, step: P, name: str, pipeline: str, *, lowers: bool = False) -> bool:
        """Run a pass if the context lets it; return whether it changed the subject.

        Args:
            step: the pass.
            name: its name.
            pipeline: the name of the pipeline that it belongs to.
            lowers: whether it runs even if disabled, because every program needs it.

        Raises:
            IngotError: of the pass, which the error names.
            InternalError: the pass left an invalid subject.
        """
        context = self.context
        if not context.may_run(name, lowers=lowers):
            return False
        if context.dump is not None and self._number == 0:
            self._dump(pipeline, "", name)
        start = time.perf_counter_ns()
        try:
            changed = self.apply(step)
        except IngotError as error:
            found = error.diagnostic
            if found.pass_name:
                raise
            raise type(error)(replace(found, pass_name=name)) from error
        spent = time.perf_counter_ns() - start
        context.timings.append(PassTiming(pipeline, name, spent, changed))
        if self._logs:
            of = {"of": self._label} if self._label else {}
            log(Level.PASS, "pass.run", name=name, changed=changed, us=spent // 1000, **of)
        if context.debug or (changed and context.verify_each):
            self.verify(name)
        if changed and context.dump is not None:
            self._dump(pipeline, name, "")
        return changed

    def _dump(self, pipeline: str, after: str, before: str) -> None:
        assert self.context.dump is not None
        stage = Stage(pipeline, self._number, after, before, self._label)
        self.context.dump(stage, self.subject)
        self._number += 1
