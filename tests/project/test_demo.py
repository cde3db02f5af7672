# SPDX-License-Identifier: Apache-2.0
"""The demo runs, and its tables say what was measured."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from demo_parts import measured, show

    return measured, show


def printed(show, table):
    console = show.make_console()
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_ratios_are_medians_of_rounds(parts):
    measured, show = parts
    item = measured.Measured(("Ingot", "TensorFlow", "XLA"))
    item.steps = {"Ingot": [1e-3, 2e-3, 1e-3], "TensorFlow": [4e-3] * 3, "XLA": [3e-3] * 3}
    item.first_calls = {engine: {"first": 0.501} for engine in item.engines}
    assert item.ratio("TensorFlow") == pytest.approx(4)
    assert item.compile_seconds("Ingot") == pytest.approx(0.5)
    assert "4 ms  (4.00 x)" in printed(show, show.times({"fused_reduce": item}))


def test_bytes_include_copies_and_reasons_are_counted(parts):
    measured, show = parts
    kernel = measured.Kernel("kLoop", ("add", "broadcast", "add"), ("a.py:1",), 100, 20, 7)
    decisions = (
        "%a fused into %b: cheap",
        "%c not fused into %d: large",
        "%e fused into %f: cheap",
    )
    facts = measured.Facts(3, 1000, 9, (kernel, kernel), (50,), decisions, {})
    assert (facts.bytes_read, facts.bytes_written, facts.flops) == (250, 90, 14)
    assert facts.reasons() == [("fused: cheap", 2), ("not fused: large", 1)]
    assert "2.9 x Ingot's" in printed(show, show.moved({"fused_reduce": facts}))
    assert "Loop 2 add" in printed(show, show.kernels(facts.kernels))


def test_texts_are_shortened_to_what_matters(parts):
    _, show = parts
    line = '  %a = f32[2]{0} negate(%b), metadata={op_type="Neg" source_line=3}'
    assert show.without_metadata(f"x\n{line}\ny") == "x\n  %a = f32[2]{0} negate(%b)\ny"
    loop = "loop12:   ; preds\n  br i1 %v, label %loop12, label %done"
    llvm = f"entry:\n  br label %loop1\n\nloop1:\n  br label %loop12\n\n{loop}\n\ndone:\n  ret"
    assert show.hot_loop(llvm) == loop


@pytest.mark.slow
def test_the_demo_runs_without_a_terminal():
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py"), "--rounds", "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert result.returncode == 0, result.stderr[-4000:]
    assert result.stderr == ""
    assert re.search(r"fused_reduce +3 +11 +1 +0", result.stdout)
    assert re.search(r"training_step: held-out accuracy +0\.9[1-9]", result.stdout)
    assert re.search(r"keras_mlp: losses, 100 steps \* +within \d\.\de-0[5-9]", result.stdout)
    assert "pass over [@0 < 1048576]" in result.stdout
    assert re.search(r"@llvm\.fmuladd\.v\d+f32", result.stdout)
