# SPDX-License-Identifier: Apache-2.0
"""The runner of passes over modules: which pass of a pipeline runs next, and when none has to.

It connects the pipelines, which are data, and the passes, which only rewrite. What happens around
each pass (fuel, times, verifier, dumps) is `rewrite.pass_runner`'s.

Invariant: after every pass that ran (`verify_each`), or after the last, the module verifies; a pass
that breaks it is named in the error. Two runs with the same context always do the same.

Source: xla/hlo/pass/hlo_pass_pipeline.cc, hlo_pass_fix.h.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("main")
    >>> module = Module.of("m", b.build(b.parameter(0, "f32[2]")))
    >>> run_passes(Pipeline("nothing", ()), module, PassContext())
    False
"""

from __future__ import annotations

from functools import lru_cache

from ingot.hlo.module import Module
from ingot.hlo.rewrite.census import Census, census
from ingot.hlo.rewrite.fingerprint import fingerprint
from ingot.hlo.rewrite.pass_base import (
    FixedPoint,
    Pass,
    PassContext,
    Pipeline,
    Step,
)
from ingot.hlo.rewrite.pass_runner import PassRunner
from ingot.hlo.verifier import verify
from ingot.support.diagnostics import InternalError, VerifyError
from ingot.support.records import replace
from ingot.support.tracing import Level, log


@lru_cache(maxsize=1 << 12)
def _idle(group: Pipeline | FixedPoint, words: frozenset[str]) -> frozenset[int]:
    """Return the numbers of the steps that look for none of `words` and ensure nothing."""
    return frozenset(
        number
        for number, step in enumerate(group.passes)
        if step.concerns is not None and not step.ensures and step.concerns.isdisjoint(words)
    )


def run_passes(step: Step, module: Module, context: PassContext) -> bool:
    """Run a pass or a group of passes on `module`; return whether anything changed.

    Raises:
        InternalError: INGOT0910 a pass left a module that does not verify; INGOT0911 a pass
            changed the module and said that it did not (debug); INGOT0912 a group found no fixed
            point (debug); INGOT0913 a pass ran without a property that it requires.
    """
    runner = _Runner(module, context)
    changed = runner.step(step, step.name)
    if changed and not context.verify_each:
        runner.verify("")
    return changed


class _Runner(PassRunner[Module, Pass]):
    """One run: what the module holds, and which passes have nothing more to do."""

    def __init__(self, module: Module, context: PassContext) -> None:
        super().__init__(module, context)
        self._checks = context.debug > 0
        self._census = Census(module)
        self._settled: dict[str, Pass] = {}

    def step(self, step: Step, pipeline: str) -> bool:
        """Run a pass or a group, unless the module has nothing that it looks for."""
        concerns = step.concerns
        if concerns is not None and not self._census.holds_any(concerns) and not self._checks:
            if step.ensures:
                self.context.properties |= step.ensures
            return False
        if isinstance(step, Pipeline):
            return self._pipeline(step)
        if isinstance(step, FixedPoint):
            return self._fixed_point(step)
        return self._pass(step, pipeline)

    def _pipeline(self, group: Pipeline) -> bool:
        changed = False
        skips = self._skips(group)
        for number, inner in enumerate(group.passes):
            if number not in skips and self.step(inner, group.name):
                changed = True
                skips = self._skips(group)
        return changed

    def _skips(self, group: Pipeline | FixedPoint) -> frozenset[int]:
        """Return the numbers of a group's steps that have nothing to do and nothing to ensure."""
        return frozenset() if self._checks else _idle(group, self._census.words)

    def _fixed_point(self, group: FixedPoint) -> bool:
        changed = False
        quiet = 0  # how many steps in a row changed nothing
        skips = self._skips(group)
        for _ in range(group.limit):
            for number, inner in enumerate(group.passes):
                if number not in skips and self.step(inner, group.name):
                    changed, quiet = True, 0
                    skips = self._skips(group)
                else:
                    quiet += 1
                if quiet >= len(group.passes):
                    return changed
        log(Level.COMPILATION, "pass.no_fixed_point", group=group.name, rounds=group.limit)
        if self._checks:
            raise self._error("INGOT0912", f"no fixed point after {group.limit} rounds", group.name)
        return changed

    def _pass(self, step: Pass, pipeline: str) -> bool:
        settled = self._settled.get(step.name)
        if settled is not None and (settled is step or settled == step):
            return False
        return self.run_pass(step, step.name, pipeline, lowers=step.lowers)

    def apply(self, step: Pass) -> bool:
        """Run a pass that has the properties it requires; renew what is known of the module."""
        context = self.context
        missing = step.requires - context.properties
        if missing:
            raise self._error("INGOT0913", f"pass needs {sorted(missing)}", step.name)
        changed = self._run_checked(step) if self._checks else step.run(self.subject, context)
        if step.breaks:
            context.properties -= step.breaks
        if step.ensures:
            context.properties |= step.ensures
        if changed:
            self._census.renew()
            self._settled.clear()
        elif not self._checks:
            self._settled[step.name] = step
        return changed

    def _run_checked(self, step: Pass) -> bool:
        """Run the pass and check its report: that it has nothing to do, or changed nothing."""
        module = self.subject
        before, held = fingerprint(module), census(module)
        changed = step.run(module, self.context)
        if not changed and fingerprint(module) != before:
            raise self._error("INGOT0911", "pass changed the module and denied it", step.name)
        if changed and step.concerns is not None and held.isdisjoint(step.concerns):
            raise self._error("INGOT0911", "pass changed what it says it leaves alone", step.name)
        return changed

    def verify(self, pass_name: str) -> None:
        """Verify the module; blame `pass_name` (if empty, one of those that ran)."""
        if not self.context.verify:
            return
        try:
            verify(self.subject)
        except VerifyError as error:
            notes = self._text_notes()
            found = error.diagnostic
            broken = replace(
                found,
                message=f"pass left an invalid module: {found.message}",
                code="INGOT0910",
                pass_name=pass_name,
                notes=(*found.notes, *notes),
                hint=found.hint if pass_name else "INGOT_DEBUG=4 verifies after each pass",
            )
            raise InternalError(broken) from error

    def _error(self, code: str, message: str, name: str) -> InternalError:
        return InternalError(message, code=code, pass_name=name, notes=self._text_notes())

    def _text_notes(self) -> tuple[str, ...]:
        if self.context.to_text is None:
            return ()
        return ("the module:\n" + self.context.to_text(self.subject),)
