# SPDX-License-Identifier: Apache-2.0
"""Profiles as traces and tables: every run is there, under its thread, with where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.client.profiling.profile import Profile
from ingot.client.profiling.profile_table import table
from ingot.client.profiling.timings import Site
from ingot.client.roofline import measured_machine
from ingot.llvm.machine_model import MachineModel
from ingot.llvm.target import TargetSpec
from ingot.runtime.recording import Event, Recording
from ingot.support.diagnostics import ResourceError
from ingot.support.records import replace

LOOP = """HloModule loop
cond { t = (s32[], f32[64,64]) parameter(0)  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(5)  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], f32[64,64]) parameter(0)  i = s32[] get-tuple-element(t), index=0
  v = f32[64,64] get-tuple-element(t), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  w = f32[64,64] dot(v, v), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="layer/dot" source_file="model.py" source_line=12}
  ROOT r = (s32[], f32[64,64]) tuple(j, w) }
ENTRY main { zero = s32[] constant(0)  x = f32[64,64] parameter(0)
  t = (s32[], f32[64,64]) tuple(zero, x)
  turns = (s32[], f32[64,64]) while(t), condition=cond, body=body
  ROOT v = f32[64,64] get-tuple-element(turns), index=1 }
"""


def _profile() -> Profile:
    return ingot.compile(LOOP).profile(np.eye(64, dtype=np.float32), runs=2)  # type: ignore[union-attr]


def test_a_trace_has_every_run_and_where_it_comes_from(tmp_path: Path) -> None:
    profile = _profile()
    profile.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    runs = [event for event in events if event["ph"] == "X"]
    assert len(runs) == len(profile.runs) == 12
    dots = [event for event in runs if event["cat"] == "kernel"]
    assert len(dots) == 10
    arguments = dots[0]["args"]
    assert arguments["source"] == "model.py:12"
    assert arguments["tf_op"] == "layer/dot"
    assert arguments["hlo_module"] == "loop"
    assert arguments["hlo"].startswith(f"%{dots[0]['name']} = ")
    assert arguments["flops"] == 2 * 64**3
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in runs} == named


def test_a_loop_comes_before_what_it_runs_and_around_it() -> None:
    events = json.loads(_profile().to_chrome_trace())["traceEvents"]
    loop, inner = [event for event in events if event["ph"] == "X"][:2]
    assert loop["cat"] == "loop"
    assert loop["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= loop["ts"] + loop["dur"]


def test_lines_get_the_time_of_their_kernels() -> None:
    profile = _profile()
    (row,) = (row for row in profile.rows() if row.site.kind == "kernel")
    assert profile.seconds_by_line() == {"model.py:12": row.total}
    assert "model.py:12" in str(profile)


MODEL = replace(MachineModel.of(TargetSpec.host()), bytes_per_second=4e9, flops_per_second=10e9)


def _site(name: str, flops: int, count: int, *lines: str) -> Site:
    return Site("m", name, "kernel", ("add", "add"), flops=flops, bytes=count, lines=lines)


def test_a_table_says_rates_and_shares() -> None:
    program = (1, 2)
    sites = [_site("slow", 3000, 6000, "a.py:1", "a.py:2"), _site("fast", 0, 0, "a.py:2")]
    events = [Event(program, 0, 0, 3000, 7, (0, 0)), Event(program, 1, 3000, 4000, 7, (0, 0))]
    profile = Profile(Recording(0, 5000, tuple(events), 3), tuple(zip(sites, events, strict=True)))
    lines = table(profile, MODEL).splitlines()
    words = " 75.0%      3 us      1      3 us       2        1  memory   50%  kernel slow (add x2)"
    assert lines[1] == f"{words}  a.py:1 and 1 more"
    assert lines[2].split()[:7] == ["25.0%", "1", "us", "1", "1", "us", "kernel"]
    assert lines[5:7] == ["100.0%      4 us  a.py:2", " 75.0%      3 us  a.py:1"]
    assert lines[-1] == "3 runs are missing: the recording was full"
    assert "… and 1 more" in table(profile, limit=1)


def test_rates_are_measured_once_and_are_numbers_of_this_world() -> None:
    model = measured_machine()
    assert model is measured_machine()
    assert 1e7 < model.bytes_per_second < 1e14
    assert 1e7 < model.flops_per_second < 1e16
    assert model.share(0, 0, 1.0) is None
    assert model.share(int(model.bytes_per_second), 0, 2.0) == pytest.approx(0.5)


def test_what_runs_inside_of_a_with_is_recorded() -> None:
    program = ingot.compile(LOOP)
    x = np.eye(64, dtype=np.float32)
    with ingot.profile() as profiler:
        program(x)
    program(x)
    assert len([site for site, _ in profiler.profile.runs if site.kind == "loop"]) == 1
    with pytest.raises(RuntimeError, match="mine"), ingot.profile():
        raise RuntimeError("mine")
    with ingot.profile():
        pass  # The one before has ended.


def test_a_trace_that_cannot_be_written_says_so() -> None:
    with pytest.raises(ResourceError, match="INGOT0411"):
        _profile().save("/nowhere/trace.json")
