# SPDX-License-Identifier: Apache-2.0
"""Programs around the patterns of rewrite rules, those first that no random program reached yet.

Each case is what some rules fire on, made from their patterns or examples, in random surroundings,
so that rules meet each other and fusion; half of them under the licence that allows every rule.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from tests.fuzz import steering
from tests.fuzz.surroundings import Part, surrounded
from tests.fuzz.target import Target
from tests.fuzz.targets.mixed_cases import check
from tests.passes.rule_checker import Instance, instances, random_inputs

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import BF16
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.shape import Shape
from ingot.passes.simplify.algsimp.rules import RULES

_BY_NAME = {entry.name: entry for entry in RULES.rules}


@cache
def _instances(name: str) -> list[Instance]:
    """Return programs that a rule fires on and whose inputs are arrays of known size."""
    made = instances(_BY_NAME[name], seeds=1)
    return [item for item in made if _are_plain(item.module.parameter_shapes)]


def generate(choose: random.Random) -> bytes:
    """Return a program on which one to three rules fire."""
    parts = [_part(_chosen(choose), choose) for _ in range(choose.randint(1, 3))]
    fp = choose.choice(("default", "fast"))
    return replace(surrounded(parts, choose), fp=fp).to_bytes()


def _chosen(choose: random.Random) -> str:
    """Return the name of a rule with such programs."""
    wanted = [name for name in steering.UNREACHED if name in _BY_NAME]
    while True:
        name = choose.choice(wanted if wanted and choose.random() < 0.8 else list(_BY_NAME))
        if _instances(name):
            return name
        wanted = [other for other in wanted if other != name]


def _part(name: str, choose: random.Random) -> Part:
    """Return one program that the rule fires on, as a call that the compiler inlines."""
    module = choose.choice(_instances(name)).module
    # Moderate numbers: under `fast`, other rules than this one may reassociate and drop NaN.
    inputs = random_inputs(module, 3, Fp.REASSOCIATE, choose.getrandbits(32))

    def build(builder: Builder, given: Sequence[Instruction]) -> Instruction:
        return builder.call(*given, to_apply=module.entry)

    # Rules of this licence round elsewhere: the exponent of `exp(x) * exp(y)`, in bits of bf16.
    is_short = any(item.shape.dtype is BF16 for item in module.entry.instructions)
    close = "close 0.05" if is_short else "close 0.01"
    return Part([np.asarray(value) for value in inputs], build, close)


def _are_plain(shapes: Iterable[Shape]) -> bool:
    return all(shape.is_static and not shape.is_tuple for shape in shapes)


TARGET = Target("rule_programs", ".hlo", generate, check)
