# SPDX-License-Identifier: Apache-2.0
"""The result of `ingot diff`: whether a program agrees, and the facts about a difference.

The command and `ingot.diff` use it. `first_difference` does the search itself; here the pass is
found (`bisect`), a reproducer is made (`reduction`), and the text is written.
"""

from __future__ import annotations

from pathlib import Path

from ingot.support.records import record
from ingot.tools import bisect
from ingot.tools.diffs.first_difference import Difference, compared, first_difference
from ingot.tools.programs.cases import Case
from ingot.tools.programs.comparing import Bounds, Comparison
from ingot.tools.programs.loading import write_bytes
from ingot.tools.reduction.graph import reduce_graph
from ingot.tools.reduction.search import Search
from ingot.tools.reduction.subgraph import cleaned
from ingot.tools.reduction.trials import Trials

SECONDS = 60.0
"""Seconds for which a reproducer is made smaller."""


@record
class Diff:
    """How a compiled program compares with its reference: `str` for text.

    Attributes:
        title: the name of the program.
        agrees: whether every result is within the bounds.
        lines: the facts about the difference.
        reproducer: the text of a file: a program that differs by itself, with inputs; may be empty.
        bounds: the allowed errors.
    """

    title: str
    agrees: bool
    lines: tuple[str, ...]
    reproducer: str = ""
    bounds: Bounds = Bounds(1e-3, 1e-3)

    def save(self, path: str | Path) -> str:
        """Write the reproducer; return the command that runs it.

        Raises:
            ResourceError: INGOT0411, the file cannot be written.
        """
        write_bytes(self.reproducer.encode("utf-8", "surrogateescape"), str(path))
        flags = f"--abs-error-bound={self.bounds.absolute:g}"
        return f"ingot run {path} {flags} --rel-error-bound={self.bounds.relative:g}"

    def __str__(self) -> str:
        return "\n".join((f"{self.title}: {self.lines[0]}", *self.lines[1:]))


def allowed(bounds: Bounds) -> str:
    """Return bounds as text."""
    return f"absolute {bounds.absolute:g} or relative {bounds.relative:g}"


def all_agree(results: list[Comparison], bounds: Bounds) -> str:
    """Return the line for results that agree."""
    worst = max((one.worst[0] for one in results), default=0.0)
    return f"all results agree within {allowed(bounds)}: greatest error {worst:.3g}"


def diff_case(title: str, case: Case, bounds: Bounds, seconds: float) -> Diff:
    """Compare a compiled module with the evaluator; find the cause of a difference.

    Args:
        title: its name.
        case: the module with its inputs.
        bounds: the allowed errors.
        seconds: the time for making the reproducer smaller.

    Raises:
        IngotError: the module cannot be compiled, run or evaluated.
    """
    results = compared(case, bounds)
    wrong = [one for one in results if not one.agrees]
    if not wrong:
        return Diff(title, True, (all_agree(results, bounds),), bounds=bounds)
    lines = [f"output {wrong[0].output} differs in {wrong[0]} (allowed: {allowed(bounds)})"]
    found = first_difference(case, bounds)
    if found is None:
        lines.append("no instruction differs once its value is a result: it depends on the fusion")
    else:
        lines += description(found)
    small = reproducer(case if found is None else found.case, found, bounds, seconds)
    assert small.inputs is not None
    trial = bisect.Trial([list(small.inputs)], bounds, small.module)
    lines.append(f"what made it so: {bisect.find(small.module, trial) or 'not found'}")
    return Diff(title, False, tuple(lines), small.text(), bounds)


def description(found: Difference) -> list[str]:
    """Return the facts about the instruction that differs, as lines."""
    item, metadata = found.instruction, found.instruction.metadata
    lines = [f"first instruction that differs: {item!r}"]
    lines += [f"  in {where}" for where in found.path]
    if metadata.location is not None:
        lines.append(f"  at {metadata.location}")
    if metadata.op_name:
        lines.append(f"  op: {metadata.op_name}")
    lines.append(f"  it differs in {found.how}")
    if found.adds_up:
        lines.append("  none of its iterations differs by itself: the differences add up")
    if found.from_operands is None or found.adds_up:
        return lines
    if found.from_operands.agrees:
        error = found.from_operands.worst[0]
        lines.append(
            f"  its operands differ within the bounds, its result by more: from the "
            f"compiled\n  operands the evaluator gives the same (greatest error {error:.3g})"
        )
    else:
        lines.append("  from the same operands the evaluator gives another value")
    return lines


def reproducer(case: Case, found: Difference | None, bounds: Bounds, seconds: float) -> Case:
    """Return a small program that still differs: the instruction alone if it does."""
    if found is not None and found.alone is not None and _still(found.alone, bounds):
        return found.alone
    start = case if found is None else _up_to(found)
    if not _still(start, bounds):
        start = case
    with Trials(bounds) as trials:
        search = Search(trials.of, seconds)
        if not search.begin(start.text()):
            return start
        return reduce_graph(start, lambda one: search.fails(one.text()))


def _still(case: Case, bounds: Bounds) -> bool:
    return any(not one.agrees for one in compared(case, bounds))


def _up_to(found: Difference) -> Case:
    """Return the program whose only result is the value that differs."""
    module = found.case.module.clone()
    entry = module.entry
    entry.set_root(next(one for one in entry.instructions if one.name == found.instruction.name))
    return cleaned(Case(module, found.case.inputs, (None,)))
