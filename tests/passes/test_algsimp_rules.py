# SPDX-License-Identifier: Apache-2.0
"""Every algebraic rule, on random programs that it fires on: meaning kept, nothing dearer."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.rule_checker import (
    assert_same,
    cost,
    fire,
    instances,
    licence_of,
    random_inputs,
    shared,
)

from ingot.evaluator import evaluate
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.rule import Rule
from ingot.passes.simplify.algsimp.rules import RULES

pytestmark = pytest.mark.fast_share(16)


@pytest.mark.parametrize("entry", RULES.rules, ids=lambda entry: entry.name)
def test_rule_keeps_meaning_and_cost(entry: Rule) -> None:
    fired = 0
    for number, instance in enumerate(instances(entry)):
        for module in (instance.module, shared(instance.module)):
            before, price = module.clone(), cost(module, instance.size)
            if not fire(entry, module):
                continue
            fired += 1
            what = f"{entry.name} ({entry.location}) on {instance.origin}"
            assert cost(module, instance.size) <= price, (
                f"{what}: cost {price} => {cost(module, instance.size)}"
            )
            licence = licence_of(entry, before)
            for seed in range(2):
                inputs = random_inputs(before, instance.size, licence, 100 * number + seed)
                with np.errstate(all="ignore"):
                    results = evaluate(before, inputs), evaluate(module, inputs)
                assert_same(*results, licence, what)
    assert fired, f"no program made {entry.name} fire: it needs an example"


def test_rules_are_many_and_say_their_algebra() -> None:
    assert len(RULES.rules) > 100
    assert all("=>" in entry.doc for entry in RULES.rules)
    assert {entry.fp for entry in RULES.rules} == set(Fp)
