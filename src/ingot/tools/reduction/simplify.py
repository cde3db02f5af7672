# SPDX-License-Identifier: Apache-2.0
"""Simpler programs than a given one, each by one edit, which `graph` tries after cutting.

An instruction is replaced by an operand of its shape, or in a called computation by zeros; a call,
a loop or a branch by a body; an input by zeros. Each edit removes something that no edit adds
(instructions, callers, values other than 0), so a search that accepts edits ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.passes.inline import inline
from ingot.support.diagnostics import IngotError
from ingot.tools.programs.cases import Case
from ingot.tools.reduction.subgraph import cleaned, named, results_of

Edit = Callable[[Module, Instruction], Instruction]
"""Returns the replacement of an instruction; both are of a copy of the module."""


def simpler(case: Case) -> Iterator[Callable[[], Case | None]]:
    """Yield functions that make cases by one edit each, largest first; None: no program."""
    for computation in case.module.post_order()[::-1]:
        for item in reversed(computation.post_order()):
            for edit in _edits(case.module, computation, item):
                yield partial(_edited, case, computation, item, edit)
    for number, value in enumerate(case.inputs or ()):
        if not isinstance(value, tuple) and value.any():
            yield partial(_with_zeros, case, number)


def _edits(module: Module, computation: Computation, item: Instruction) -> Iterator[Edit]:
    yield from (_body_of(number) for number in range(len(_bodies(item))))
    for number, operand in enumerate(item.operands):
        if operand.shape.compatible(item.shape):
            yield _operand(number)
    leaf = item.shape
    inside = computation is not module.entry and item.opcode not in ("parameter", "constant")
    zeros = item.opcode == "broadcast" and item.operands[0].opcode == "constant"
    if inside and not zeros and leaf.is_array and leaf.is_static:
        yield _zeros


def _bodies(item: Instruction) -> list[tuple[int, slice]]:
    """Return the called computations that may replace an instruction, with their operands."""
    count = len(item.operands)
    if item.opcode in ("call", "fusion"):
        return [(0, slice(0, count))]
    if item.opcode == "while":
        body = item.called_computations.index(item.attributes.body)
        return [(body, slice(0, 1))]
    if item.opcode == "conditional":
        branches = item.attributes.branch_computations
        first = item.called_computations.index(branches[0])
        return [(first + n, slice(n + 1, n + 2)) for n in range(len(branches))]
    return []


def _body_of(number: int) -> Edit:
    def edit(module: Module, item: Instruction) -> Instruction:
        which, operands = _bodies(item)[number]
        assert item.parent is not None
        return inline(item.parent, item.called_computations[which], item.operands[operands])

    return edit


def _operand(number: int) -> Edit:
    return lambda module, item: item.operands[number]


def _zeros(module: Module, item: Instruction) -> Instruction:
    assert item.parent is not None
    return Builder(item.parent).full(0, item.shape)


def _edited(case: Case, computation: Computation, item: Instruction, edit: Edit) -> Case | None:
    module = case.module.clone()
    found = named(module, computation.name, item.name)
    assert found.parent is not None
    try:
        found.parent.replace(found, edit(module, found))
    except IngotError:
        return None
    count = len(results_of(module.entry))
    kept = count == len(results_of(case.module.entry))
    return cleaned(Case(module, case.inputs, case.outputs if kept else (None,) * count))


def _with_zeros(case: Case, number: int) -> Case:
    """Return the case with the numbers of one input, an array, all 0."""
    assert case.inputs is not None
    given = list(case.inputs)
    given[number] = np.zeros_like(given[number])
    return Case(case.module, tuple(given), case.outputs)
