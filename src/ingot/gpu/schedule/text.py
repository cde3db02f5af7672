# SPDX-License-Identifier: Apache-2.0
"""Schedules of a GPU as text: what `GpuExecutable.as_text("schedule")` shows.

A line for each launch, with the numbers of its strategy; where a strategy has rewritten the kernel,
the kernel that the launch runs. Then come the strategies that refused the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from ingot.gpu.schedule.strategies import GpuSchedule
from ingot.kernel.ir import Kernel
from ingot.kernel.schedule.text import fields_text, refusals
from ingot.kernel.text import kernel_text


def schedule_text(kernel: Kernel, schedule: GpuSchedule) -> str:
    """Return the text of the schedule of a kernel, several lines."""
    return "\n".join((*_launches(kernel, schedule), *refusals(schedule.refused))) + "\n"


def _launches(kernel: Kernel, schedule: GpuSchedule) -> Iterator[str]:
    for stage in schedule.stages:
        widths = "" if stage.widths is None else f", {fields_text('for widths', stage.widths)}"
        head = fields_text(stage.strategy.name, stage.strategy)
        yield f"{head}: {stage.blocks} blocks of {stage.threads} threads{widths}"
        if stage.kernel is not kernel:
            yield indent(kernel_text(stage.kernel).rstrip(), "  ")
