# SPDX-License-Identifier: Apache-2.0
"""Bisection: finds the pass, and the rewrite in it, that made a module bad.

The runner counts fuel down; this file searches for the least amount that makes the result bad.
Compilation is deterministic, so every trial runs the same passes in the same order.

Invariant: the given module is not changed; each trial works on a copy.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Firing, PassContext, Step
from ingot.hlo.rewrite.runner import run_passes
from ingot.support.records import record, replace


@record
class Culprit:
    """The first bad step: the pass, its number among executions, and the rewrite if it is one."""

    pass_name: str
    pass_number: int
    firing: Firing | None


def find_culprit(
    module: Module, step: Step, is_bad: Callable[[Module], bool], context: PassContext
) -> Culprit | None:
    """Return the step of `step` that makes `module` bad, or None if the result is not bad.

    `is_bad` gets a module after some of the passes; `context` has the options. A bad module is
    assumed to stay bad.
    """
    whole = _trial(module, step, context)
    if not is_bad(whole[0]):
        return None

    def bad_with_passes(count: int) -> bool:
        return is_bad(_trial(module, step, context, passes=count)[0])

    number = first_bad(len(whole[1].timings), bad_with_passes)
    before = len(_trial(module, step, context, passes=number - 1)[1].log)
    records = _trial(module, step, context, passes=number)[1]
    name = records.timings[-1].name if records.timings else ""
    if len(records.log) == before:
        return Culprit(name, number, None)

    def bad_with_rewrites(count: int) -> bool:
        return is_bad(_trial(module, step, context, passes=number, rewrites=count)[0])

    rewrite = first_bad(len(records.log), bad_with_rewrites)
    return Culprit(name, number, records.log[rewrite - 1] if rewrite else None)


def _trial(
    module: Module,
    step: Step,
    context: PassContext,
    passes: int | None = None,
    rewrites: int | None = None,
) -> tuple[Module, PassContext]:
    """Run a copy with limited fuel; return it and its records."""
    copy = module.clone()
    trial = replace(
        context,
        pass_fuel=passes,
        rewrite_fuel=rewrites,
        properties=set(context.properties),
        log=[],
        timings=[],
        settled={},
        remarks=[],
    )
    run_passes(step, copy, trial)
    return copy, trial


def first_bad(count: int, is_bad: Callable[[int], bool]) -> int:
    """Return the least amount of fuel in [0, count] that is bad; `count` is known to be."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if is_bad(middle):
            high = middle
        else:
            low = middle + 1
    return high
