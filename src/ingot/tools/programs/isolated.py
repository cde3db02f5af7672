# SPDX-License-Identifier: Apache-2.0
"""Programs of one instruction each: what `ingot run --isolate-instructions` runs.

Every instruction of the entry, and of the computations of its control flow, becomes a module: its
operands become parameters, except constants. There is no module for ops that compute nothing
(tuples), for ops that call others (loops, whose bodies are visited instead) and for ops without a
meaning of their own (the halves of an async pair, ops on tokens).

Source: xla/tools/run_hlo_module.cc (RunIsolatedAndCompare).
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module

_CONTROL = frozenset({"call", "conditional", "while", "async-start"})
_SKIPPED = _CONTROL | {
    "add-dependency", "after-all", "constant", "domain", "get-tuple-element", "opt-barrier",
    "parameter", "rng", "rng-get-and-update-state", "tuple",
}  # fmt: skip
_HALVES = ("-start", "-update", "-done")


def isolated(module: Module) -> Iterator[Module]:
    """Yield a module for each instruction; its name is the instruction's."""
    for computation in _run(module.entry, {}):
        for instruction in computation.post_order():
            if _stands_alone(instruction):
                yield _alone(instruction, module)


def _run(computation: Computation, seen: dict[Computation, None]) -> Iterator[Computation]:
    """Yield a computation and those that its control flow calls, once each."""
    if computation in seen:
        return
    seen[computation] = None
    yield computation
    for instruction in computation.post_order():
        if instruction.opcode in _CONTROL:
            for called in instruction.called_computations:
                yield from _run(called, seen)


def _stands_alone(instruction: Instruction) -> bool:
    if instruction.opcode in _SKIPPED or instruction.opcode.endswith(_HALVES):
        return False
    shapes = (instruction.shape, *(operand.shape for operand in instruction.operands))
    return all(leaf.is_array for shape in shapes for _, leaf in shape.leaves())


def _alone(instruction: Instruction, module: Module) -> Module:
    builder = Builder("main")
    taken: dict[Instruction, Instruction] = {}
    count = 0
    for operand in instruction.operands:
        if operand in taken:
            continue
        if operand.opcode == "constant":
            taken[operand] = builder.computation.copy_of(operand, ())
        else:
            taken[operand] = builder.parameter(count, operand.shape)
            count += 1
    operands = [taken[operand] for operand in instruction.operands]
    root = builder.computation.copy_of(instruction, operands)
    made = Module.of(instruction.name, builder.build(root)).clone()
    for name in ("replica_count", "num_partitions"):
        if name in module.extra:
            made.extra[name] = module.extra[name]
    return made
