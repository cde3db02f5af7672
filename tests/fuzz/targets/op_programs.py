# SPDX-License-Identifier: Apache-2.0
"""The programs of `tests/ops`, every op that there is, in random surroundings.

A program of static arrays, without loops that random numbers may leave endless, is called between
movements, loops and branches (`surroundings`), beside others, and compared with the evaluator. Any
other stands alone: it is read, printed, written and compiled.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import numpy as np
from tests.fuzz.module_check import NOT_COMPARED, checked, is_defined
from tests.fuzz.surroundings import Part, surrounded
from tests.fuzz.target import Target
from tests.fuzz.targets import mixed_cases
from tests.fuzz.targets.hlo_text import MARK, seeds
from tests.support.random_modules import random_inputs

from ingot.formats.hlo_text import parse_hlo
from ingot.formats.load import load
from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.support.diagnostics import IngotError

LARGEST = 1 << 14


@cache
def _programs() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the texts that can be parts of others, and those that stand alone."""
    parts, alone = list[str](), list[str]()
    for text in seeds():
        try:
            module = parse_hlo(text)
        except IngotError:
            continue
        (parts if _can_be_part(module) else alone).append(text)
    return tuple(parts), tuple(alone)


def _can_be_part(module: Module) -> bool:
    rows = [i for c in module.computations.values() for i in c.instructions]
    leaves = [leaf for row in rows for _, leaf in row.shape.leaves()]
    return (
        not module.aliases
        and all(row.opcode not in NOT_COMPARED and is_defined(row) for row in rows)
        and all(leaf.is_array and leaf.is_static and not leaf.bounded for leaf in leaves)
        and all(leaf.size <= LARGEST for leaf in leaves)
        and not any(p.shape.is_tuple for p in module.entry.parameters)
        and not any(row.opcode == "while" for row in rows)
        and not module.schedule
    )


def generate(choose: random.Random) -> bytes:
    """Return a program."""
    parts, alone = _programs()
    if choose.random() < 0.3:
        return choose.choice(alone).encode() + MARK
    chosen = [_part(choose.choice(parts), choose) for _ in range(choose.randint(1, 3))]
    return surrounded(chosen, choose).to_bytes()


def _part(text: str, choose: random.Random) -> Part:
    module = parse_hlo(text)
    inputs = random_inputs(module, choose.getrandbits(32))

    def build(builder: Builder, given: Sequence[Instruction]) -> Instruction:
        return builder.call(*given, to_apply=module.entry)

    return Part([np.asarray(value) for value in inputs], build, "close 0.01")


def check(data: bytes) -> str:
    """Compare native code with the evaluator, or what a module prints with what it is."""
    if data.endswith(MARK):
        return checked(lambda: load(data, "hlo_text"), runs=True)
    return mixed_cases.check(data)


TARGET = Target("op_programs", ".hlo", generate, check, share=2.0)
