# SPDX-License-Identifier: Apache-2.0
"""Cycles between kernels: the bounded search answers as a search through everything does."""

from __future__ import annotations

import random

import pytest

from ingot.formats.hlo_text import parse
from ingot.hlo.instruction import Instruction
from ingot.passes.fusion import groups as groups_module
from ingot.passes.fusion.decide import decide
from ingot.passes.fusion.groups import Group, Grouping


def exhaustive(grouping: Grouping, root: Instruction, group: Group) -> bool:
    """Whether a path leads from `root`, outside of `group`, back into it."""
    seen, stack = {root}, [root]
    while stack:
        for user in stack.pop().users:
            homes = grouping.groups_with(user)
            if homes == [group]:
                continue
            others = [other for other in homes if other is not group]
            made = [one for other in others for one in other.roots] if homes else [user]
            for value in made:
                if value in seen:
                    continue
                if any(group in grouping.groups_with(reader) for reader in value.users):
                    return True
                seen.add(value)
                stack.append(value)
    return False


def graph(seed: int) -> str:
    """Return HLO text of random ops that are fused, fold, multiply or call."""
    pick = random.Random(seed)
    whole = ["p", "q"]
    lines = ["p = f32[40,32] parameter(0)", "q = f32[40,32] parameter(1)",
             "zero = f32[] constant(0)"]  # fmt: skip

    def value() -> str:
        return pick.choice(whole[-6:] if pick.random() < 0.7 else whole)

    for number in range(pick.randint(10, 50)):
        kind = pick.choice(["fold", "product", "call", "add", "multiply", "exponential"])
        made = f"v{number} = f32[40,32]"
        if kind == "fold":
            lines.append(
                f"s{number} = f32[40] reduce({value()}, zero), dimensions={{1}}, to_apply=f"
            )
            lines.append(f"{made} broadcast(s{number}), dimensions={{0}}")
        elif kind == "product":
            lines.append(f"d{number} = f32[40,40] dot({value()}, {value()}), "
                         "lhs_contracting_dims={1}, rhs_contracting_dims={1}")  # fmt: skip
            lines.append(f"{made} dot(d{number}, {value()}), lhs_contracting_dims={{1}}, "
                         "rhs_contracting_dims={0}")  # fmt: skip
        elif kind == "call":
            lines.append(f'{made} custom-call({value()}), custom_call_target="nothing"')
        else:
            second = "" if kind == "exponential" else f", {value()}"
            lines.append(f"{made} {kind}({value()}{second})")
        whole.append(f"v{number}")
    results = pick.sample(whole, min(len(whole), 3))
    shapes = ", ".join(["f32[40,32]"] * len(results))
    body = "\n".join([*lines, f"ROOT r = ({shapes}) tuple({', '.join(results)})"])
    fold = "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"
    return f"HloModule m\n{fold}\nENTRY e {{\n{body}\n}}"


def test_the_search_answers_as_one_through_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded, answers = Grouping.would_cycle, list[bool]()

    def both(grouping: Grouping, root: Instruction, group: Group) -> bool:
        answers.append(bounded(grouping, root, group))
        assert answers[-1] == exhaustive(grouping, root, group), (root, group.main)
        return answers[-1]

    monkeypatch.setattr(Grouping, "would_cycle", both)
    for seed in range(150):
        decide(parse(graph(seed)).entry)
    assert answers.count(True) > 100
    assert answers.count(False) > 500


def test_a_search_that_takes_too_long_answers_that_there_is_a_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups_module, "MAX_SEARCHED", 1)
    bounded, answers = Grouping.would_cycle, list[tuple[bool, bool]]()

    def both(grouping: Grouping, root: Instruction, group: Group) -> bool:
        answers.append((bounded(grouping, root, group), exhaustive(grouping, root, group)))
        return answers[-1][0]

    monkeypatch.setattr(Grouping, "would_cycle", both)
    for seed in range(20):
        decide(parse(graph(seed)).entry)
    # Never the other way round: a kernel that waits for itself could not run.
    assert (False, True) not in answers
    assert (True, True) in answers
