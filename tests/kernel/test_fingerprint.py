# SPDX-License-Identifier: Apache-2.0
"""Equal kernels have equal fingerprints, in every process; different ones differ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.kernel.programs import SOFTMAX, flat, fused, whole_sum

from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.text import fingerprint

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from tests.kernel.programs import FOUR_SUMS, SOFTMAX, flat, fused
from ingot.kernel.text import fingerprint
from ingot.kernel.loop.build import build_loop_kernel
for computation in fused(SOFTMAX), flat("?n", 3), fused(FOUR_SUMS):
    print(fingerprint(build_loop_kernel(computation)))
"""


def _fingerprint(computation) -> str:
    return fingerprint(collapse(build_loop_kernel(computation)))


def test_the_same_in_every_process() -> None:
    found = set()
    for seed in ("0", "1", "4711"):
        environment = dict(os.environ, PYTHONHASHSEED=seed, PYTHONPATH=str(ROOT))
        command = [sys.executable, "-c", PROGRAM]
        result = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        )
        found.add(result.stdout)
    assert len(found) == 1
    assert len(found.pop().split()) == 3


def test_names_do_not_matter() -> None:
    renamed = SOFTMAX.replace("mb", "other").replace("tb", "more")
    assert _fingerprint(fused(SOFTMAX)) == _fingerprint(fused(renamed))


def test_shapes_that_collapse_to_one_loop_share_a_kernel() -> None:
    assert _fingerprint(flat(4, 6)) == _fingerprint(flat(24)) == _fingerprint(flat(2, 3, 4))


def test_what_differs_has_another_fingerprint() -> None:
    texts = [
        SOFTMAX,
        SOFTMAX.replace("divide(e, tb)", "divide(tb, e)"),
        SOFTMAX.replace("constant(0)", "constant(-0.0)"),
        SOFTMAX.replace("64", "32"),
        SOFTMAX.replace("f32[?n] reduce(p, low), dimensions={1}, to_apply=max",
                        "f32[?n] reduce(p, low), dimensions={1}, to_apply=add"),
    ]  # fmt: skip
    found = [_fingerprint(fused(text)) for text in texts]
    found += [_fingerprint(flat(7)), _fingerprint(whole_sum(7))]
    assert len(set(found)) == len(found)
