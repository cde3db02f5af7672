# SPDX-License-Identifier: Apache-2.0
"""Collectives of a program that runs alone: what its text names beyond it, as in real XLA."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support import real_xla

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.support.diagnostics import VerifyError

COMBINE = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
ALONE = {
    "all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add": [3.0, 4.0],
    "all-reduce(x), replica_groups={{1,0,2}}, to_apply=add": [3.0, 4.0],
    "collective-permute(x), source_target_pairs={{0,1},{2,3}}": [0.0, 0.0],
    "collective-permute(x), source_target_pairs={{0,0},{1,1}}": [3.0, 4.0],
    "all-to-all(x), dimensions={0}, replica_groups={{0},{1}}": [3.0, 4.0],
}


def text_of(body: str) -> str:
    return f"HloModule m\n{COMBINE}ENTRY e {{\n x = f32[2] parameter(0)\n {body}\n}}\n"


@pytest.mark.parametrize(("op", "want"), ALONE.items())
def test_a_device_alone_takes_part_as_in_xla(op: str, want: list[float]):
    text = text_of(f"ROOT y = f32[2] {op}")
    value = np.array([3, 4], np.float32)
    assert real_xla.run_hlo_text(text, [value])[0].tolist() == want
    module = parse(text)
    assert np.asarray(evaluate(module, [value])).tolist() == want
    assert np.asarray(ingot.compile(module)(value)).tolist() == want


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("ROOT y = f32[8] all-gather(x), dimensions={0}", r"one device does not make f32\[8\]"),
        (
            "s = (f32[2], f32[8]) all-gather-start(x), dimensions={0}\n"
            " ROOT y = f32[8] all-gather-done(s)",
            r"one device does not make f32\[8\]",
        ),
        (
            "ROOT y = f32[1] reduce-scatter(x), dimensions={0}, to_apply=add",
            r"one device does not make f32\[1\]",
        ),
        ("ROOT y = f32[2] all-to-all(x), dimensions={0}, replica_groups={{0,1}}", "not there"),
        ("ROOT y = f32[2] collective-permute(x), source_target_pairs={{1,0}}", "not there"),
    ],
)
def test_results_that_more_devices_would_give_are_refused(body: str, what: str):
    module = parse(text_of(body))
    with pytest.raises(VerifyError, match=what) as found:
        evaluate(module, [np.ones(2, np.float32)])
    assert "replica_count=N" in str(found.value)
    with pytest.raises(VerifyError, match=what):
        ingot.compile(module)
