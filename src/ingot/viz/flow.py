# SPDX-License-Identifier: Apache-2.0
"""The data flow between the kernels of a scheduled module, for `gather`.

Instructions that only pass values on (a tuple, a copy, a loop) are left out: their users read the
kernels that made the values. Results of a called computation (`call`) count as made by the call's
operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingot.analysis.liveness import called_by_control_flow
from ingot.hlo.instruction import Instruction

Sources = dict[Instruction, frozenset[int]]


def feeds_of(
    kernels: Sequence[Instruction], positions: Mapping[Instruction, int]
) -> list[tuple[int, ...]]:
    """Return for each kernel the numbers of those that read its results.

    Args:
        kernels: the fusion instructions, by number.
        positions: the position of each instruction in the order of all (`analysis.liveness`).
    """
    numbers = {instruction: number for number, instruction in enumerate(kernels)}
    callers = {called: item for item in positions for called in called_by_control_flow(item)}
    sources: Sources = {}
    feeds: list[dict[int, None]] = [{} for _ in kernels]
    for item in sorted(positions, key=positions.__getitem__):
        caller = callers.get(item.computation) if item.opcode == "parameter" else None
        behind = _behind(item if caller is None else caller, sources)
        number = numbers.get(item)
        sources[item] = behind if number is None else frozenset([number])
        if number is not None:
            for source in sorted(behind):
                feeds[source][number] = None
    return [tuple(row) for row in feeds]


def _behind(item: Instruction, sources: Sources) -> frozenset[int]:
    """Return the kernels that made the operands of an instruction."""
    operands: Sequence[Instruction] = item.operands
    if item.opcode == "get-tuple-element" and operands[0].opcode == "tuple":
        index: int = item.attributes.index
        operands = operands[0].operands[index : index + 1]
    return frozenset(kernel for operand in operands for kernel in _made(operand, sources))


def _made(item: Instruction, sources: Sources) -> frozenset[int]:
    """Return the kernels that made a value; for a loop or conditional, also those within it."""
    roots = [called.root for called in called_by_control_flow(item)]
    return frozenset(kernel for one in (item, *roots) for kernel in sources.get(one, ()))
