# SPDX-License-Identifier: Apache-2.0
"""Donation between stages: which memory a stage takes over, decided once all code is written.

A block whose array nothing reads after a stage is donated to it: a result that is an update of that
array is made in the block, and a copy of it is a move. A result that the last stage makes may be
written into a parameter of the program (`input_output_alias`): when that stage begins, no other
stage can fail, no size can be negative and no block can be missing, so an error leaves the
parameter as it was. Where the stage itself may fail, the parameter survives
(`Alias.survives_failure`) if it is an operand of the stage, and is not written otherwise.

Invariant: a stage takes over a block only if it is the only remaining reader.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ingot.analysis.aliasing import FIRST_OPERAND_VIEWS, Path
from ingot.analysis.failures import ends_early
from ingot.analysis.in_place import elementwise_users, in_place_operands
from ingot.artifact.stages import (
    Code,
    Copy,
    Define,
    Differs,
    Free,
    Jump,
    Move,
    Run,
    StagedCode,
    Unless,
)
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Alias, Module
from ingot.passes.stages.stage_module import leaf_of

Pairs = list[tuple[int, int]]


def donate_blocks(stages: Sequence[Module], code: StagedCode, aliases: Pairs) -> StagedCode:
    """Return the code in which stages take over blocks, and let the stages' modules say so.

    `aliases`: (number in the code's results, number in its parameters).
    """
    return _Donation(stages, code, aliases).run()


class _Donation:
    def __init__(self, stages: Sequence[Module], code: StagedCode, aliases: Pairs) -> None:
        self._stages = stages
        self._code = code
        sizes = {item.target for item in code.code if isinstance(item, Define)}
        self._blocks = set(range(len(code.slots))) - sizes - set(code.parameters)
        self._placed = {code.results[result] for result, _ in aliases}
        self._wanted = aliases
        self._found: Pairs = []

    def run(self) -> StagedCode:
        last = _last_run(self._code.code)
        lines: list[Code] = []
        for number, (item, live) in enumerate(
            zip(self._code.code, _live_after(self._code), strict=True)
        ):
            if isinstance(item, Run):
                lines.append(self._run(item, live, is_last=number == last))
            elif isinstance(item, Copy) and self._is_done(item.source, live):
                lines.append(Move(item.source, item.target))
            else:
                lines.append(item)
        return replace(self._code, code=tuple(lines), aliases=tuple(self._found))

    def _is_done(self, slot: int, live: int) -> bool:
        """Whether a slot has a block, and nothing reads it any more."""
        return slot in self._blocks and not live >> slot & 1

    def _run(self, item: Run, live: int, is_last: bool) -> Run:
        outputs, inputs = item.outputs, item.inputs
        placed = [number for number, slot in enumerate(outputs) if slot in self._placed]
        donors = [
            n for n, s in enumerate(inputs) if self._is_done(s, live) and inputs.count(s) == 1
        ]
        module = self._stages[item.stage]
        taken = _updated(module, donors, placed)
        given = self._given(item) if is_last else []
        nested = len(outputs) > 1
        module.aliases = tuple(
            Alias((output,) if nested else (), number, survives_failure=survives)
            for pairs, survives in ((taken, False), (given, True))
            for output, number in pairs
        )
        return replace(item, taken=tuple(taken), placed=tuple(placed))

    def _given(self, item: Run) -> Pairs:
        """Note the parameters that results of the last stage are written into.

        Returns those of them that the stage reads: (number of the output, of the input).
        """
        found: Pairs = []
        for result, parameter in self._wanted:
            target, source = self._code.results[result], self._code.parameters[parameter]
            if target not in item.outputs or item.inputs.count(source) > 1:
                continue
            if source not in item.inputs and ends_early(self._stages[item.stage]):
                continue
            self._found.append((result, parameter))
            if source in item.inputs:
                found.append((item.outputs.index(target), item.inputs.index(source)))
        return found


# ---- when values are read


def _last_run(code: Sequence[Code]) -> int:
    """Return the number of the run after which nothing can fail; -1 if there is none."""
    last = max((n for n, item in enumerate(code) if isinstance(item, Run)), default=-1)
    is_reached = all(item.target <= last for item in code if isinstance(item, _JUMPS))
    is_end = all(isinstance(item, Free | Move) for item in code[last + 1 :])
    return last if is_reached and is_end else -1


_JUMPS = Jump | Unless | Differs


def _reads(item: Code) -> tuple[int, ...]:
    match item:
        case Run():
            return item.inputs
        case Define(source) | Copy(source) | Move(source):
            return (source,)
        case Unless(slot) | Differs(slot):
            return (slot,)
        case Free() | Jump():
            return ()


def _writes(item: Code) -> tuple[int, ...]:
    match item:
        case Run():
            return item.outputs
        case Define(_, target) | Copy(_, target) | Move(_, target):
            return (target,)
        case Free() | Jump() | Unless() | Differs():
            return ()


def _bits(slots: Collection[int]) -> int:
    return sum(1 << slot for slot in set(slots))


def _live_after(code: StagedCode) -> list[int]:
    """Return for each instruction the slots whose data is read after it, as bits."""
    lines = code.code
    rows = [(_bits(_reads(item)), ~_bits(_writes(item))) for item in lines]
    before = [0] * len(lines) + [_bits(code.results)]
    after = [0] * len(lines)
    changed = True
    while changed:
        changed = False
        for number in range(len(lines) - 1, -1, -1):
            item, (reads, keeps) = lines[number], rows[number]
            live = 0 if isinstance(item, Jump) else before[number + 1]
            if isinstance(item, _JUMPS):
                live |= before[item.target]
            after[number] = live
            live = reads | live & keeps
            changed |= live != before[number]
            before[number] = live
    return after


# ---- effects of a stage on donated arguments


def _updated(module: Module, donors: Collection[int], placed: Collection[int]) -> Pairs:
    """Return (number of a result, of a parameter) where a stage's result is made in a donor."""
    root = module.entry.root
    results = dict(enumerate(root.operands if root.opcode == "tuple" else [root]))
    for number in placed:
        del results[number]
    free = {module.entry.parameters[number]: number for number in donors}
    found: Pairs = []

    def pair(number: int, donor: Instruction) -> None:
        if donor in free and donor.shape.compatible(results[number].shape):
            found.append((number, free.pop(donor)))
            del results[number]

    for number, result in list(results.items()):
        pair(number, _updated_by(result))
    for donor in list(free):
        users = elementwise_users(donor) or ()
        reached = [number for number, result in results.items() if result in users]
        if len(reached) == 1:
            pair(reached[0], donor)
    return found


def _updated_by(result: Instruction) -> Instruction:
    """Return the array in whose memory updates, loops and views make a result."""
    path: Path = ()
    while True:
        result, path = leaf_of(result, path)
        if result.opcode == "while" or result.opcode in FIRST_OPERAND_VIEWS:
            number = 0
        else:
            updated = in_place_operands(result).get(path)
            if updated is None:
                return result
            number, path = updated, ()
        result = result.operands[number]
