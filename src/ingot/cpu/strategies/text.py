# SPDX-License-Identifier: Apache-2.0
"""Plans as text: what `Executable.as_text("schedule")` shows of a kernel on a CPU.

The first line names the strategy. Loops are written out (`kernel.schedule.text`), other schedules
in one line, of library code the names of the templates. Then come the strategies that refused the
kernel, with their reasons.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.cpu.emit.template import Template
from ingot.cpu.library.parts import LibraryKernel
from ingot.cpu.strategies.plans import DriverCode, LoopCode, ScheduledCode
from ingot.cpu.strategies.table import Plan, Planned
from ingot.kernel.schedule.text import fields_text, refusals, schedule_text
from ingot.support.diagnostics import InternalError


def plan_text(planned: Planned) -> str:
    """Return how a kernel runs, several lines."""
    plan = _plan(planned.strategy, planned.plan).rstrip()
    return "\n".join((plan, *refusals(planned.refused))) + "\n"


def _plan(strategy: str, plan: Plan) -> str:
    if isinstance(plan, LoopCode):
        text = schedule_text(plan.kernel, plan.schedule)
        is_own = plan.schedule.strategy.name == strategy
        return text if is_own else f"{strategy}, as loops: {text}"
    if isinstance(plan, ScheduledCode):
        return fields_text(strategy, plan.schedule)
    if isinstance(plan, DriverCode):
        text = f"{strategy} by {_names(plan.call.needed)}, and code of its own"
        return text if plan.epilogue is None else fields_text(f"{text}: epilogue", plan.epilogue)
    if isinstance(plan, LibraryKernel):
        return f"{strategy} by {_names(part.template for part in plan.parts)}"
    raise InternalError(f"a plan of no known kind: {type(plan).__name__}")


def _names(templates: Iterable[Template]) -> str:
    return ", ".join(dict.fromkeys(template.name for template in templates))
