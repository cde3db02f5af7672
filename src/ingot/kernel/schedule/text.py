# SPDX-License-Identifier: Apache-2.0
"""Schedules as text: what `Executable.as_text("schedule")` shows, and `tests/kernel/schedules`.

A loop schedule is written as the loops that run, outermost first::

    lanes {
      chunk < 8, each 300 of 2400 units
      grid @0 < 300
      grid @1 < 500, blocks of 64, vectors of 16
      pass 0 over [@2 < 7]
    }

The first line names the strategy, with its own numbers; after the loops stand the attributes that
are not the usual ones. Kernels that the strategy made, as those of pieces, are in braces of their
own. Other schedules are one line of their fields; records in them are in braces.

Invariant: equal schedules of equal kernels have equal texts and different ones different texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from textwrap import indent
from typing import Any, cast

from ingot.kernel.analysis.gathers import Gather
from ingot.kernel.analysis.work import IN_ORDER
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.loop_schedule import Effort, LoopSchedule, LoopStrategy
from ingot.kernel.schedule.piece_loops import Pieces
from ingot.kernel.schedule.splits import SplitReduction
from ingot.kernel.text import kernel_text


def schedule_text(kernel: LoopKernel, schedule: LoopSchedule) -> str:
    """Return the text of a loop kernel's schedule, several lines."""
    strategy = schedule.strategy
    lines = [" ".join((strategy.name, *_fields(strategy, ("cuts", "bands", "fold")), "{"))]
    lines += [f"  {line}" for line in _loops(kernel, schedule)]
    lines += [indent(line, "  ") for line in _kernels(strategy)]
    return "\n".join((*lines, "}\n"))


def fields_text(name: str, schedule: Any) -> str:
    """Return one line: `name` and the fields of a record that are not False, None or the default.

    Args:
        name: what the record is, or the strategy that it belongs to.
        schedule: a record (`support.records`).
    """
    return " ".join((name, *_fields(schedule, ())))


def refusals(refused: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each strategy that refused a kernel, with its reason."""
    return [f"  not {name}: {reason}" for name, reason in refused]


def _fields(holder: Any, left_out: tuple[str, ...]) -> Iterator[str]:
    for field in fields(holder):
        value = getattr(holder, field.name)
        said = value is not False and value is not None and value != field.default
        if said and field.name not in left_out:
            yield field.name if value is True else f"{field.name}={_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Axis):
        return value.name
    if isinstance(value, Gather):
        value = value.load
    if isinstance(value, Expr) and value.op == "load":
        return f"b{value.payload.buffer}[{value.payload.index}]"
    if is_dataclass(value):
        return f"{{{' '.join(_fields(value, ()))}}}"
    if isinstance(value, tuple):
        return f"[{', '.join([_value(item) for item in cast('tuple[Any, ...]', value)])}]"
    return str(value)


def _loops(kernel: LoopKernel, schedule: LoopSchedule) -> Iterator[str]:
    _, blocked = schedule.unit_axes(kernel)
    yield f"chunk < {schedule.chunks}, each {schedule.grain} of {schedule.units} units"
    for axis in kernel.grid:
        text = f"grid {axis.name} < {axis.extent}"
        if axis in blocked:
            in_order = schedule.block == IN_ORDER
            text += ", in order" if in_order else f", blocks of {schedule.block_along(axis)}"
        if axis == schedule.vector_axis:
            text += f", vectors of {schedule.lanes[0]}"
        yield text
    for number, item in enumerate(kernel.passes):
        if item.axes:
            axes = ", ".join(f"{axis.name} < {axis.extent}" for axis in item.axes)
            text = f"pass {number} over [{axes}]"
            own = schedule.vector_axis is None
            yield f"{text}, vectors of {schedule.lanes[number]}" if own else text
    yield from _attributes(schedule)


def _attributes(schedule: LoopSchedule) -> Iterator[str]:
    if schedule.large_buffers:
        yield f"large buffers {', '.join(f'b{n}' for n in sorted(schedule.large_buffers))}"
    if schedule.effort is not Effort.FULL:
        yield f"effort {schedule.effort.value}"
    if schedule.masks_all_blocks:
        yield "masks all blocks"


def _kernels(strategy: LoopStrategy) -> Iterator[str]:
    """Return the kernels that the strategy made of the scheduled one."""
    if isinstance(strategy, SplitReduction) and strategy.fold is not None:
        yield f"parts are folded by {kernel_text(strategy.fold).rstrip()}"
    if isinstance(strategy, Pieces):
        yield from _pieces(strategy)


def _pieces(strategy: Pieces) -> Iterator[str]:
    for cut in strategy.cuts:
        yield f"cut {cut.axis.name} at [{', '.join(map(str, cut.positions))}]"
    for band in strategy.bands:
        for loop in band.loops:
            ranges = "".join(f" [{first}, {last}]" for first, last in band.ranges)
            head = f"piece{ranges} from {loop.first}, {loop.length} long, vectors of {loop.lanes}"
            yield f"{head}{', copies' * loop.copies}: {kernel_text(loop.kernel).rstrip()}"
