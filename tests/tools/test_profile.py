# SPDX-License-Identifier: Apache-2.0
"""`ingot profile`: modules and programs, as a table and as a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingot.__main__ import main


def test_a_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    flags = ["--size", "n=50", "--runs=3", "--no-roofline", "-o", str(trace)]
    assert main(["profile", "tests/tools/softmax.hlo", *flags]) == 0
    printed = capsys.readouterr().out
    assert "exponential" in printed
    assert "roof" not in printed.splitlines()[0]
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 3


def test_a_module_on_several_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.hlo"
    path.write_text(
        "HloModule two, replica_count=2 ENTRY e { x = f32[64] parameter(0) "
        "ROOT y = f32[64] cosine(x) }"
    )
    trace = tmp_path / "trace.json"
    assert main(["profile", str(path), "--runs=1", "--no-roofline", "-o", str(trace)]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events if event["ph"] == "X"} == {0, 1}


@pytest.mark.slow
def test_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, ingot\n"
        "text = 'HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }'\n"
        "for _ in range(int(sys.argv[1])):\n"
        "    ingot.compile(text)([1, 2, 3, 4])\n"
    )
    assert main(["profile", str(script), "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "share",
        "total",
        "calls",
        "shortest",
        "GB/s",
        "GFLOP/s",
        "bound",
        "roof",
        "what",
    ]
    assert lines[1].split()[3] == "5"
    assert "(negate)" in lines[1]


def test_a_program_that_compiles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "program.py"
    script.write_text("print('nothing')\n")
    assert main(["profile", str(script)]) == 1
    assert "INGOT0363" in capsys.readouterr().err
