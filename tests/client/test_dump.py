# SPDX-License-Identifier: Apache-2.0
"""Dumps have XLA's names and formats, and show a program before anything can fail."""

from __future__ import annotations

import gzip
import importlib
import itertools
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ingot
import ingot.client.reports.dump as dump
from ingot.client.executables.staged import StagedExecutable
from ingot.client.reports.memory_report import memory_usage_report
from ingot.formats.hlo_proto import parse_snapshot
from ingot.formats.load import load
from ingot.support import flags, xla_flags

TEXT = """HloModule some.program
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[8,8] parameter(0)
  y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={source_file="model.py" source_line=7}
  zero = f32[] constant(0)
  ROOT r = f32[8] reduce(y, zero), dimensions={1}, to_apply=add
}
"""


@pytest.fixture(autouse=True)
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "_numbers", itertools.count())


def _dumped(folder: Path, flags: str = "") -> dict[str, Path]:
    """Return the files of a compilation by their suffixes."""
    ingot.compile(TEXT, xla_flags=xla_flags.parse(f"--xla_dump_to={folder} {flags}"))
    files = sorted(folder.iterdir())
    assert all(".some.program." in file.name for file in files)
    return {file.name.split(".some.program.")[1]: file for file in files}


PLAIN = {
    "before_optimizations.txt",
    "cpu_after_optimizations.txt",
    "cpu_after_optimizations-buffer-assignment.txt",
    "cpu_after_optimizations-memory-usage-report.txt",
    "kernels.txt",
    "ir-no-opt.ll",
    "ir-with-opt.ll",
}


def test_names_are_those_of_xla(tmp_path: Path) -> None:
    files = _dumped(tmp_path)
    assert {*files} == PLAIN
    assert files["kernels.txt"].name == "module_0000.some.program.kernels.txt"
    assert "define" in files["ir-with-opt.ll"].read_text()
    assert files["ir-with-opt.ll"].read_text() != files["ir-no-opt.ll"].read_text()


def test_every_format_of_both_modules_and_of_passes(tmp_path: Path) -> None:
    formats = "--xla_dump_hlo_as_dot --xla_dump_hlo_as_html --xla_dump_hlo_as_proto"
    files = _dumped(tmp_path, f"{formats} --xla_dump_hlo_pass_re=^fusion$")
    more = {*files} - PLAIN
    stems = {name.rsplit(".", 1)[0] for name in more if name.endswith(".dot")}
    assert {"before_optimizations", "cpu_after_optimizations"} < stems
    assert any(stem.endswith("after_fusion") for stem in stems)
    for stem in stems:
        for ending in ("txt", "html", "hlo.pb"):
            assert f"{stem}.{ending}" in files
    module = load(files["before_optimizations.hlo.pb"])
    assert [item.opcode for item in module.entry.post_order()] == [
        "parameter", "dot", "constant", "reduce",
    ]  # fmt: skip


def test_pipelines_are_chosen_by_name(tmp_path: Path) -> None:
    assert _passes(_dumped(tmp_path / "none", "--xla_dump_hlo_pipeline_re=nowhere")) == set()
    all_of_cpu = _passes(_dumped(tmp_path / "cpu", "--xla_dump_hlo_pipeline_re=^cpu$"))
    both = "--xla_dump_hlo_pipeline_re=^cpu$ --xla_dump_hlo_pass_re=fusion"
    assert {name.split(".")[1] for name in all_of_cpu} == {"cpu"}
    assert any("after_fusion" in name for name in _passes(_dumped(tmp_path / "both", both)))


def _passes(files: dict[str, Path]) -> set[str]:
    return {name for name in files if name[:4].isdigit()}


def test_protos_may_be_compressed(tmp_path: Path) -> None:
    flags = "--xla_dump_hlo_as_proto --xla_dump_compress_protos"
    files = _dumped(tmp_path, flags)
    data = gzip.decompress(files["before_optimizations.hlo.pb.gz"].read_bytes())
    (tmp_path / "plain.pb").write_bytes(data)
    assert load(tmp_path / "plain.pb").name == "some.program"


STATEFUL = """HloModule some.program, input_output_alias={ {1}: (1, {}, must-alias) }
ENTRY e {
  pair = (f32[3], s4[3]) parameter(0)
  state = f32[3] parameter(1)
  none = bf16[0] parameter(2)
  x = f32[3] get-tuple-element(pair), index=0
  small = s4[3] get-tuple-element(pair), index=1
  next = f32[3] add(state, x)
  ROOT both = (s4[3], f32[3], bf16[0]) tuple(small, next, none)
}
"""


def test_each_execution_is_a_snapshot(tmp_path: Path) -> None:
    settings = xla_flags.parse(f"--xla_dump_to={tmp_path} --xla_dump_hlo_snapshots")
    executable = ingot.compile(STATEFUL, xla_flags=settings)
    state = np.zeros(3, np.float32)
    small, none = np.array([1, -8, 7], ml_dtypes.int4), np.empty(0, ml_dtypes.bfloat16)
    for _ in range(2):
        _, state, _ = executable(np.arange(3, dtype=np.float32), small, state, none, donate=[2])
    files = sorted(tmp_path.glob("*.pb"))
    prefix = "module_0000.some.program.execution_"
    assert [file.name for file in files] == [f"{prefix}{n:04d}.hlo_snapshot.pb" for n in (0, 1)]
    second = parse_snapshot(files[1].read_bytes())
    pair, before, empty = second.arguments
    assert pair.elements[0].value.tolist() == [0, 1, 2]
    assert pair.elements[1].value.tolist() == small.tolist()
    assert before.value.tolist() == [0, 1, 2]  # what it was before its memory was taken over
    assert empty.value.shape == (0,)
    assert second.result is not None
    assert second.result.elements[1].value.tolist() == [0, 2, 4]
    assert [i.opcode for i in second.module.entry.post_order()].count("add") == 1


def test_sizes_of_calls_are_in_no_snapshot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "HloModule m ENTRY e { x = f32[?n] parameter(0) ROOT y = f32[?n] negate(x) }"
    settings = xla_flags.parse(f"--xla_dump_to={tmp_path} --xla_dump_hlo_snapshots")
    assert ingot.compile(text, xla_flags=settings)(np.ones(2, np.float32)).tolist() == [-1, -1]
    assert "no snapshots of m" in caplog.text
    assert not list(tmp_path.glob("*.pb"))


def test_a_snapshot_that_cannot_be_written_ends_no_execution(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "dump"
    settings = xla_flags.parse(f"--xla_dump_to={folder} --xla_dump_hlo_snapshots")
    executable = ingot.compile(TEXT, xla_flags=settings)
    shutil.rmtree(folder)
    folder.write_text("no folder")
    assert executable(np.ones((8, 8), np.float32)).tolist() == [64] * 8
    assert "INGOT0410" in caplog.text


def test_names_may_begin_with_the_time(tmp_path: Path) -> None:
    files = _dumped(tmp_path, "--xla_dump_include_timestamp")
    when, number, _ = files["kernels.txt"].name.split(".", 2)
    assert when.isdecimal()
    assert int(when) > 1_700_000_000_000_000
    assert number == "module_0000"


def test_the_number_of_dumped_modules_is_limited(tmp_path: Path) -> None:
    for _ in range(3):
        ingot.compile(
            TEXT,
            xla_flags=xla_flags.parse(f"--xla_dump_to={tmp_path} --xla_dump_max_hlo_modules=2"),
        )
    assert {file.name[:11] for file in tmp_path.iterdir()} == {"module_0000", "module_0001"}


def test_a_graph_format_alone_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    ingot.compile(TEXT, xla_flags=xla_flags.parse("--xla_dump_hlo_as_dot"))
    assert (
        "*** Begin module_0000.some.program.before_optimizations.dot ***" in capsys.readouterr().out
    )


def test_a_program_is_dumped_before_its_compilation_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("mine")

    monkeypatch.setattr(importlib.import_module("ingot.client.compilation"), "compile_module", fail)
    with pytest.raises(ingot.InternalError, match="mine"):
        _dumped(tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.name == "module_0000.some.program.before_optimizations.txt"


def test_the_memory_report_adds_up() -> None:
    executable = ingot.compile(TEXT)
    assert not isinstance(executable, StagedExecutable)
    assignment = executable.assignment
    lines = memory_usage_report(assignment).splitlines()
    total = sum(int(one.size) for one in assignment.allocations)  # type: ignore[call-overload]
    assert lines[0].startswith(f"Total bytes used: {total} (")
    rows = [line for line in lines if "; allocation" in line]
    assert len(rows) - 1 == len(assignment.allocations)
    assert "(100%);        0 B;" in rows[-1]
    sizes = [int(row.split("size ")[1].split(",")[0]) for row in rows[1:]]
    assert sizes == sorted(sizes, reverse=True)
    assert any("at model.py:7" in line for line in lines[lines.index(rows[-1]) :])


def test_the_memory_report_of_symbolic_sizes() -> None:
    executable = ingot.compile(
        "HloModule m ENTRY e { x = f32[?n] parameter(0) ROOT y = f32[?n] negate(x) }"
    )
    assert not isinstance(executable, StagedExecutable)
    text = memory_usage_report(executable.assignment)
    assert "symbolic; allocation" in text
    assert "size 4*n, parameter 0" in text


def test_kernel_passes_are_dumped_as_passes_of_modules_are(tmp_path: Path) -> None:
    text = (
        "HloModule some.program ENTRY e { x = f32[4,8] parameter(0) ROOT y = f32[4,8] negate(x) }"
    )
    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_pipeline_re=^kernel$ --xla_dump_hlo_as_dot"
    executable = ingot.compile(text, xla_flags=xla_flags.parse(flags))
    prefix = "module_0000.some.program."
    files = {file.name.removeprefix(prefix): file for file in tmp_path.iterdir()}
    start = "0000.kernel.fused_loop.start.before_known-indices.txt"
    after = "0001.kernel.fused_loop.after_collapse-axes.txt"
    assert _passes(files) == {start, after}
    assert files[start].read_text().startswith("loop over [@0 < 4, @1 < 8] {")
    assert executable.as_text("kernel").endswith(f": {files[after].read_text()}")


def test_the_log_has_kernel_passes(capfd: pytest.CaptureFixture[str]) -> None:
    text = "HloModule m ENTRY e { x = f32[4,8] parameter(0) ROOT y = f32[4,8] negate(x) }"
    with flags.override(flags.DEBUG, 4):
        ingot.compile(text)
    logged = capfd.readouterr().err
    assert "pass.run name=collapse-axes changed=True" in logged
    assert "] loops 0001.kernel.fused_loop.after_collapse-axes\nloop over [@0 < 32] {" in logged
