# SPDX-License-Identifier: Apache-2.0
"""`Executable.profile`: which kernel ran when, by name."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from ingot.client import compile
from ingot.client.executables.staged import StagedExecutable
from ingot.client.profiling import timings
from ingot.client.profiling.profile import Profiler
from ingot.formats.hlo_text import parse
from ingot.llvm.machine_model import MachineModel
from ingot.llvm.target import TargetSpec
from ingot.runtime.recording import recorder
from ingot.support.diagnostics import ResourceError
from ingot.support.records import replace

STRAIGHT = """HloModule straight

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

ENTRY main {
  x = f32[32,32] parameter(0)
  p = f32[32,32] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  sums = f32[32] reduce(p, zero), dimensions={0}, to_apply=add
  ROOT both = (f32[32,32], f32[32]) tuple(p, sums)
}
"""
LOOP = """HloModule loop

cond {
  t = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  v = f32[64,64] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[64,64] dot(v, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[64,64]) tuple(j, w)
}

ENTRY main {
  zero = s32[] constant(0)
  x = f32[64,64] parameter(0)
  t = (s32[], f32[64,64]) tuple(zero, x)
  turns = (s32[], f32[64,64]) while(t), condition=cond, body=body
  ROOT v = f32[64,64] get-tuple-element(turns), index=1
}
"""
CALL = """HloModule call
ENTRY main { x = f32[4,4] parameter(0)  ROOT c = f32[4,4] cholesky(x), lower=true }
"""


def test_kernels_have_their_names_and_times() -> None:
    executable = compile(parse(STRAIGHT))
    profile = executable.profile(np.eye(32, dtype=np.float32), runs=3)
    rows = {row.site.name: row for row in profile.rows()}
    assert {*rows} == {kernel.fusion for kernel in executable.kernels}
    assert all(row.calls == 3 and row.total >= 3 * row.shortest > 0 for row in rows.values())
    first = profile.runs[0][0]
    assert first.module == "straight"
    assert first.opcodes == executable.kernels[0].opcodes
    assert all(row.site.name in str(profile) for row in rows.values())


def test_events_are_in_order_and_inside_of_the_recording() -> None:
    executable = compile(parse(STRAIGHT))
    profile = executable.profile(np.eye(32, dtype=np.float32), runs=2)
    edges = [profile.recording.begin, *(at for _, e in profile.runs for at in (e.start, e.end))]
    assert edges == sorted(edges)
    assert edges[-1] <= profile.recording.end


def test_a_loop_is_timed_around_what_runs_in_it() -> None:
    profile = compile(parse(LOOP)).profile(np.eye(64, dtype=np.float32))
    kinds = {row.site.kind: row for row in profile.rows()}
    assert kinds["loop"].calls == 1
    assert kinds["kernel"].calls == 5
    assert kinds["loop"].total >= kinds["kernel"].total


def test_a_foreign_call_says_its_target() -> None:
    profile = compile(parse(CALL)).profile(np.eye(4, dtype=np.float32))
    (call,) = (row for row in profile.rows() if row.site.kind == "call")
    assert "potrf" in call.site.opcodes[0]


def test_nothing_is_recorded_before_and_after() -> None:
    executable = compile(parse(STRAIGHT))
    x = np.eye(32, dtype=np.float32)
    executable(x)
    recorder().start()
    recording = recorder().stop()
    executable(x)
    assert recording.events == ()
    recorder().start()
    assert recorder().stop().events == ()


def test_a_program_that_is_gone_keeps_its_names() -> None:
    profiler = Profiler()
    profiler.start()
    compile(parse(CALL))(np.eye(4, dtype=np.float32))
    gc.collect()
    assert {site.module for site, _ in profiler.stop().runs} == {"call"}


def test_one_at_a_time() -> None:
    executable = compile(parse(CALL))
    profiler = Profiler()
    profiler.start()
    try:
        with pytest.raises(ResourceError, match="in use"):
            executable.profile(np.eye(4, dtype=np.float32))
        executable(np.eye(4, dtype=np.float32))
    finally:
        profile = profiler.stop()
    assert profile.runs


def test_kernels_of_all_stages():
    """A program that defines a size has a stage before it and one behind."""
    module = parse("""HloModule staged
ENTRY main {
  count = s32[] parameter(0)
  one = s32[] constant(1)
  more = s32[] add(count, one)
  n = pred[?n] custom-call(more), custom_call_target="ingot.size"
  numbers = f32[?n] iota(), iota_dimension=0
  ROOT r = f32[?n] exponential(numbers)
}""")
    staged = compile(module)
    assert isinstance(staged, StagedExecutable)
    assert len(staged.executables) == 2
    profile = staged.profile(np.int32(5), runs=3)
    calls = {row.site.opcodes: row.calls for row in profile.rows()}
    assert calls == dict.fromkeys([kernel.opcodes for kernel in staged.kernels], 3)
    assert ("iota", "exponential") in calls


SYMBOLIC = """HloModule symbolic
ENTRY main { x = f32[?n,8] parameter(0)  y = f32[8,?n] parameter(1)  s = f32[?n,8] sine(x)
  ROOT r = (f32[?n,8], f32[8,?n]) tuple(s, y) }
"""


def test_the_limit_of_a_kernel_is_known_at_the_sizes_of_a_run() -> None:
    executable = compile(parse(SYMBOLIC))
    (kernel,) = (one for one in executable.kernels if "sine" in one.opcodes)
    assert kernel.bound == ""
    small, large = kernel.at({"n": 1}), kernel.at({"n": 1 << 24})
    assert (small.bytes_read, small.bytes_written, small.transcendentals) == (32, 32, 8)
    assert (small.bound, large.bound != "latency") == ("latency", True)
    assert kernel.at({"m": 1}) == kernel
    x, y = np.ones((3000, 8), np.float32), np.ones((8, 3000), np.float32)
    rows = {row.site.name: row for row in executable.profile(x, y, runs=2).rows()}
    row = rows[kernel.fusion]
    assert row.site.bytes == 2 * x.nbytes
    assert row.bound == kernel.at({"n": 3000}).bound != ""
    assert row.roofline is not None
    assert row.roofline > 0


def test_rows_have_their_share_of_the_roofline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest time by the rates of this machine, over the one that the shortest call took."""
    model = replace(MachineModel.of(TargetSpec.host()), bytes_per_second=1e9, flops_per_second=1e12)
    monkeypatch.setattr(timings, "measured_machine", lambda: model)
    profile = compile(parse(STRAIGHT)).profile(np.eye(32, dtype=np.float32), runs=3)
    for row in profile.rows():
        assert row.roofline == pytest.approx(row.site.bytes / 1e9 / row.shortest)
    (call,) = compile(parse(CALL)).profile(np.eye(4, dtype=np.float32)).rows()[:1]
    assert (call.bound, call.roofline) == ("", None)


def test_unknown_sizes_have_no_limit() -> None:
    """A recording of any programs does not know which sizes they were called with."""
    executable = compile(parse(SYMBOLIC))
    with Profiler() as profiler:
        executable(np.ones((5, 8), np.float32), np.ones((8, 5), np.float32))
    for row in profiler.profile.rows():
        assert (row.bound, row.roofline) == ("", None)
