# SPDX-License-Identifier: Apache-2.0
"""Smaller programs than a given one, for `reduce`: fewer results, parameters for computed values.

A value that becomes a parameter keeps the number that the evaluator gives for it, so what comes
after sees what it saw before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tests.fuzz.program_case import Array, ProgramCase, flat, read_case

from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.support.diagnostics import IngotError

_LARGEST = 1 << 13
"""Elements of a value that may become an input: it is written as text."""


def smaller_modules(data: bytes) -> Iterator[bytes]:
    """Yield smaller cases, the most daring first; nothing if `data` holds no case.

    Any error of the reader means that: it may be the very finding that is being reduced.
    """
    try:
        case = read_case(data)
    except Exception:
        return
    if case.module.entry.root.opcode == "tuple":
        for root in _results(case.module.entry):
            yield _with_root(case, root)
    for instruction in reversed(case.module.entry.post_order()):
        made = _given(case, instruction.name) if _may_be_given(instruction) else b""
        if made:
            yield made


def _results(entry: Computation) -> list[Instruction]:
    found = dict.fromkeys(entry.root.operands)
    return [item for item in found if item.opcode != "parameter" and not item.shape.is_tuple]


def _with_root(case: ProgramCase, root: Instruction) -> bytes:
    module = case.module.clone()
    module.entry.set_root(_named(module, root.name))
    number = case.module.entry.root.operands.index(root)
    compare = case.compare if len(case.compare) == 1 else (case.compare[number],)
    return _written(module, replace(case, compare=compare))


def _named(module: Module, name: str) -> Instruction:
    return next(item for item in module.entry.instructions if item.name == name)


def _may_be_given(instruction: Instruction) -> bool:
    shape = instruction.shape
    return (
        instruction.opcode not in ("parameter", "constant")
        and shape.is_array
        and not instruction.is_root
        and shape.is_static
        and isinstance(shape.size, int)
        and shape.size <= _LARGEST
    )


def _given(case: ProgramCase, name: str) -> bytes:
    """Return the case with the value of an instruction as one more input."""
    module = case.module.clone()
    entry, instruction = module.entry, _named(module, name)
    probe = module.clone()
    probe.entry.set_root(_named(probe, name))
    try:
        with np.errstate(all="ignore"):
            (value,) = flat(evaluate(probe, case.inputs))
    except IngotError:
        return b""
    parameter = Builder(entry).parameter(len(entry.parameters), instruction.shape)
    entry.replace_all_uses(instruction, parameter)
    return _written(module, replace(case, inputs=[*case.inputs, value]))


def _written(module: Module, case: ProgramCase) -> bytes:
    """Return a case without its dead instructions and unused parameters."""
    entry = module.entry
    for instruction in reversed(entry.post_order()):
        dead = not instruction.users and not instruction.is_root
        if dead and instruction.opcode != "parameter":
            entry.remove(instruction)
    inputs = _renumbered(entry, list(case.inputs))
    for computation in set(module.computations.values()) - set(module.post_order()):
        module.remove(computation)
    return replace(case, module=module, inputs=inputs).to_bytes()


def _renumbered(entry: Computation, inputs: list[Array]) -> list[Array]:
    """Remove parameters that nothing uses; return the inputs of the others."""
    kept: list[Array] = []
    for parameter, value in zip(list(entry.parameters), inputs, strict=True):
        if parameter.users or parameter.is_root:
            kept.append(value)
        else:
            entry.remove(parameter)
    for number, parameter in enumerate(entry.parameters):
        entry.set_attributes(parameter, replace(parameter.attributes, number=number))
    return kept
