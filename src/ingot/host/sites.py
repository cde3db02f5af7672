# SPDX-License-Identifier: Apache-2.0
"""What a profiler times: the sites of a host program, numbered.

The host program (`host.program`, or the runtime if it interprets steps) tells the profiler the
number of a site; `client.profiling.profile` knows its name. Invariant: kernel calls come first, in
the order of the schedule.
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.semantics.foreign_calls import foreign_calls


def scheduled_fusions(module: Module) -> list[Instruction]:
    """Return the fusions that the host program calls, computation by computation."""
    return _scheduled(module, "fusion")


def sites(module: Module) -> list[Instruction]:
    """Return kernel calls, foreign calls and loops of a scheduled module: their sites' order."""
    return [*scheduled_fusions(module), *foreign_calls(module), *_scheduled(module, "while")]


def _scheduled(module: Module, opcode: str) -> list[Instruction]:
    orders = module.schedule.values()
    return [one for order in orders for one in order if one.opcode == opcode]
