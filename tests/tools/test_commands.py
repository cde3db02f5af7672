# SPDX-License-Identifier: Apache-2.0
"""The `ingot` command: what it prints, its exit statuses, its flags in both spellings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ingot.__main__ import main, usage
from ingot.formats.hlo_proto import parse_snapshot
from ingot.formats.hlo_proto.literals import parse_literals
from ingot.formats.hlo_text import parse
from ingot.tools import COMMANDS
from ingot.tools.cli import with_dashes
from ingot.tools.programs.literals import literal_text

MODULE = """HloModule example

ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] add(x, y)
  z = f32[] constant(1)
  b = f32[4] broadcast(z), dimensions={}
  ROOT m = f32[4] multiply(s, b)
}
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "example.hlo"
    path.write_text(MODULE)
    return str(path)


def test_run_agrees(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", module, "--iterations=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "(iteration 0): cpu and evaluator agree: 1 output, greatest error" in lines[0]


def test_run_shows_what_differs(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    # Equal elements agree whatever the bounds; of so many exponentials some are an ulp off.
    flags = ["--abs_error_bound=-1", "--rel_error_bound=-1"]
    path = Path(module)
    body = "x = f32[1000] parameter(0)\n  ROOT y = f32[1000] exponential(x)"
    path.write_text(f"HloModule m\nENTRY e {{\n  {body}\n}}")
    assert main(["run", module, *flags]) == 1
    printed = capsys.readouterr().out.replace(module, "")
    assert "differ" in printed
    assert "of 1000" in printed


def test_run_on_given_literals(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, outputs = tmp_path / "inputs.txt", tmp_path / "outputs.npz"
    inputs.write_text("# x and y\nf32[4] {1, 2, 3, 4}\nf32[4] {10, 20, 30, nan}\n")
    flags = [f"--input-literals-file={inputs}", f"--output-literals-file={outputs}"]
    assert main(["run", module, "--print-literals", *flags]) == 0
    assert "output 0: f32[4] {11, 22, 33, nan}" in capsys.readouterr().out
    with np.load(outputs) as file:
        np.testing.assert_array_equal(file["arr_0"], np.float32([11, 22, 33, np.nan]))


def test_run_takes_the_sizes_it_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "symbolic.hlo"
    path.write_text(MODULE.replace("f32[4]", "f32[?n]"))
    assert main(["run", str(path), "--size", "n=3", "--print-literals"]) == 0
    assert "output 0: f32[3] {" in capsys.readouterr().out
    assert main(["run", str(path), "--size", "n"]) == 2
    assert "'n' is not NAME=NUMBER" in capsys.readouterr().err
    assert main(["run", str(path), "--size", "m=3"]) == 1
    assert "no symbolic size 'm'\n  hint: it has n" in capsys.readouterr().err


def test_run_with_too_few_literals(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.npy"
    np.save(path, np.zeros(4, np.float32))
    assert main(["run", module, f"--input_literals_file={path}"]) == 1
    assert "INGOT0521" in capsys.readouterr().err


ALL_REDUCE = """HloModule sums
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add
}
"""


def test_run_on_several_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sums.hlo"
    path.write_text(ALL_REDUCE)
    assert main(["run", str(path), "--num_replicas=4"]) == 0
    assert "cpu and evaluator agree: 4 outputs" in capsys.readouterr().out
    assert main(["run", str(path), "--num_replicas=4", "--reference_platform="]) == 0
    assert "cpu ran in" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--num_replicas=4", "--num_partitions=4"])
def test_run_against_several_devices_of_xla(flag: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    path = tmp_path / "sums.hlo"
    mode = ", channel_id=1, use_global_device_ids=true" if "partitions" in flag else ""
    path.write_text(ALL_REDUCE.replace(", to_apply", f"{mode}, to_apply"))
    # A process of its own: XLA's client is made once, with as many devices as are asked for.
    command = [sys.executable, "-m", "ingot", "run", str(path), flag, "--reference_platform=xla"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cpu and xla agree: 4 outputs" in done.stdout


def test_a_snapshot_is_an_execution_that_can_be_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, path = "tests/tools/softmax_static.hlo", str(tmp_path / "execution.pb")
    assert main(["run", module, "--random-seed=7", f"--output-snapshot={path}"]) == 0
    snapshot = parse_snapshot(Path(path).read_bytes())
    (argument,) = snapshot.arguments
    np.testing.assert_allclose(snapshot.result.value.sum(1), 1, rtol=1e-5)
    capsys.readouterr()
    assert main(["run", path, "--print-literals"]) == 0
    shown = capsys.readouterr().out
    assert f"input 0: {literal_text(argument.value)}" in shown
    assert f"output 0: {literal_text(snapshot.result.value)}" in shown
    assert main(["run", module, module, f"--output-snapshot={path}"]) == 2


def test_run_keeps_and_takes_the_literals_of_run_hlo_module(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "literals.pb")
    assert main(["run", module, "--iterations=2", f"--output_literals_file={path}"]) == 0
    first, second = parse_literals(Path(path).read_bytes())
    assert len(first.arguments) == 2
    assert first.result is not None
    assert second.reference_result is not None
    np.testing.assert_array_equal(second.result.value, second.reference_result.value)
    assert not np.array_equal(first.arguments[0].value, second.arguments[0].value)
    capsys.readouterr()
    flags = ["--iterations=2", f"--input_literals_file={path}", "--print_literals=true"]
    assert main(["run", module, *flags]) == 0
    printed = capsys.readouterr().out.splitlines()
    shown = [line for line in printed if line.startswith("input 0")]
    assert shown == [f"input 0: {literal_text(row.arguments[0].value)}" for row in (first, second)]


@pytest.mark.parametrize(
    ("flag", "least", "most"),
    [("--use_large_float_range=true", 1e6, 4e38), ("--random_init_input_literals=false", 0, 0)],
)
def test_run_draws_the_inputs_that_are_asked_for(
    flag: str, least: float, most: float, module: str, tmp_path: Path
) -> None:
    path = tmp_path / "literals.pb"
    assert main(["run", module, flag, f"--output_literals_file={path}"]) == 0
    (row,) = parse_literals(path.read_bytes())
    values = np.abs(np.concatenate([one.value for one in row.arguments]))
    assert least <= float(values.max()) <= most


def test_run_isolates_instructions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.hlo"
    path.write_text("""HloModule loop
    test { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3) ROOT more = pred[] compare(i, n), direction=LT }
    step { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1) next = s32[] add(i, one)
      x = f32[3] get-tuple-element(s), index=1 y = f32[3] cosine(x)
      ROOT t = (s32[], f32[3]) tuple(next, y) }
    ENTRY e { x = f32[3] parameter(0) z = s32[] constant(0) p = (s32[], f32[3]) tuple(z, x)
      ROOT w = (s32[], f32[3]) while(p), condition=test, body=step }""")
    assert main(["run", str(path), "--isolate_instructions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split(": ")[1] for line in lines} == {"more", "next", "y"}


def test_opt_takes_several_modules_and_names_of_xla(
    module: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "two.hlo"
    path.write_text(f"{MODULE}\n// -----\n{MODULE.replace('example', 'other')}")
    assert main(["opt", "--split_input_file", str(path), "--passes=dce", "--format=hlo"]) == 0
    first, second = capfdbinary.readouterr().out.decode().split("// -----")
    assert [parse(text).name for text in (first, second)] == ["example", "other"]
    assert main(["opt", module, "--stage=llvm-before-optimizations"]) == 0
    assert b"define" in capfdbinary.readouterr().out
    assert main(["opt", "--list-stages"]) == 0
    assert "kernel" in capfdbinary.readouterr().out.decode().split()


def test_flags_of_xla_count_as_in_its_variable(
    module: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "")
    assert main(["opt", module]) == 0
    assert b"multiply(" not in capfdbinary.readouterr().out
    assert main(["opt", module, "--xla_disable_hlo_passes=algsimp"]) == 0
    assert b"multiply(" in capfdbinary.readouterr().out


def test_opt_runs_passes(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", module, "--passes=algsimp,dce"]) == 0
    opcodes = [i.opcode for i in parse(capsys.readouterr().out).entry.instructions]
    assert opcodes == ["parameter", "parameter", "add"]


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("hlo_before", "multiply("),
        ("hlo", "fusion("),
        ("kernel", "f32"),
        ("llvm", "define"),
        ("assembly", ".globl"),
        ("buffers", "BufferAssignment"),
        ("fusions", "fused into"),
        ("rewrites", "=>"),
    ],
)
def test_opt_prints_a_stage(
    module: str, stage: str, text: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    if stage == "fusions":
        Path(module).write_text(MODULE.replace("multiply(s, b)", "exponential(s)"))
    assert main(["opt", module, f"--stage={stage}"]) == 0
    assert text in capfdbinary.readouterr().out.decode()


def test_opt_lists_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list-passes"]) == 0
    printed = capsys.readouterr().out
    assert "algsimp" in printed
    assert "element_limit=65536" in printed
    assert "collapse-axes" in printed


@pytest.mark.parametrize(
    ("passes", "hint"),
    [
        ("algsmp", "did you mean 'algsimp'?"),
        ("dce{x=1}", "its options: none"),
        ("constant-folding{element_limit=many}", "its default is 65536"),
    ],
)
def test_opt_names_what_there_is_not(
    module: str, passes: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["opt", module, f"--passes={passes}"]) == 1
    printed = capsys.readouterr().err
    assert "error[INGOT0520]" in printed
    assert hint in printed


def test_translate_there_and_back(module: str, tmp_path: Path) -> None:
    proto, text = str(tmp_path / "m.pb"), tmp_path / "back.hlo"
    assert main(["translate", module, "--to=pb", "-o", proto]) == 0
    assert main(["translate", proto, "--from=pb", "-o", str(text)]) == 0
    assert "ROOT %m = f32[4]{0} multiply(%s, %b)" in text.read_text()


def test_bad_input_shows_its_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.hlo"
    path.write_text(MODULE.replace("add(x, y)", "ad(x, y)"))
    assert main(["run", str(path)]) == 1
    printed = capsys.readouterr().err
    assert "error[INGOT0102]: unknown opcode 'ad'" in printed
    assert f"{path}:6:14" in printed
    assert "^" in printed


def test_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nowhere.hlo"]) == 1
    assert "INGOT0411" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["run"], ["opt"], ["opt", "m", "--stage=x"], ["run", "--wat"], ["nothing"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert main(arguments) == 2


def test_unknown_names_have_hints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rnu", "m"]) == 2
    assert "no file or command 'rnu'; did you mean 'run'?" in capsys.readouterr().err
    monkeypatch.setenv("INGOT_FPP", "exact")
    main(["opt", "--list-passes"])
    assert "no flag INGOT_FPP; did you mean 'INGOT_FP'?" in capsys.readouterr().err


def test_usage_names_every_command() -> None:
    assert all(f"  {name}" in usage() for name in COMMANDS)


def test_usage_ends_quietly_where_nobody_reads_it() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ingot", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert not done.stderr


def test_both_spellings_of_flags() -> None:
    given = ["run", "--random_seed=3", "--input_format", "a_b.hlo", "--", "--x_y"]
    assert with_dashes(given) == [
        "run", "--random-seed=3", "--input-format", "a_b.hlo", "--", "--x_y",
    ]  # fmt: skip


PAIR = """HloModule pair

ENTRY main {
  x = f32[2] parameter(0)
  y = f32[2] negate(x), metadata={op_name="mine"}
  ROOT r = (f32[2], f32[2]) tuple(x, y)
}
"""


@pytest.mark.parametrize("stage", ["hlo_before", "hlo", None])
def test_opt_leaves_metadata_out(
    stage: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pair.hlo"
    path.write_text(PAIR)
    chosen = [f"--stage={stage}"] if stage else []
    assert main(["opt", str(path), *chosen]) == 0
    assert "metadata" in capsys.readouterr().out
    assert main(["opt", str(path), "--no-metadata", *chosen]) == 0
    assert "metadata" not in capsys.readouterr().out


def test_files_of_literals_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, junk = tmp_path / "pair.hlo", tmp_path / "junk.npz"
    path.write_text(PAIR)
    junk.write_text("junk")
    for option, code in (
        (f"--input-literals-file={tmp_path}/none.npz", "INGOT0411"),
        (f"--input-literals-file={junk}", "INGOT0124"),
        (f"--output-literals-file={tmp_path}/two.npy", "INGOT0521"),
        (f"--output-literals-file={tmp_path}/no/such/folder.npz", "INGOT0411"),
    ):
        assert main(["run", str(path), option]) == 1
        assert code in capsys.readouterr().err


def test_opt_prints_what_each_pass_changed(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "after.hlo"
    flags = ["--passes=algsimp,cse,dce", "--print-changed", "-o", str(kept)]
    assert main(["opt", module, *flags]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("***")] == [
        "*** 1: algsimp (opt) ***"
    ]
    assert "-  ROOT %m = f32[4]{0} multiply(%s, %b)" in printed
    assert "multiply" not in kept.read_text()
    assert main(["opt", module, "--print-changed", "--stage=hlo", "-o", str(kept)]) == 0
    assert "fusion (cpu) ***" in capsys.readouterr().out


def test_opt_prints_what_each_kernel_pass_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = tmp_path / "sum.hlo", tmp_path / "after.txt"
    path.write_text(
        "HloModule m\nENTRY e {\n  x = f32[4,8,16] parameter(0)\n"
        "  ROOT r = f32[4,8,16] negate(x)\n}\n"
    )
    flags = ["opt", str(path), "--print-changed", "-o", str(kept)]
    assert main([*flags, "--stage=kernel"]) == 0
    printed = capsys.readouterr().out
    assert "collapse-axes (kernel fused_loop) ***" in printed
    assert "\n-    b1[128*@0+16*@1+@2] = v1\n+    b1[@0] = v1\n" in printed
    assert main([*flags, "--stage=hlo"]) == 0
    assert "collapse-axes" not in capsys.readouterr().out
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=collapse-axes")
    assert main([*flags, "--stage=kernel"]) == 0
    assert "collapse-axes" not in capsys.readouterr().out
    assert "b1[128*@0+16*@1+@2] = v1" in kept.read_text()


@pytest.mark.parametrize("stage", ["kernel", "kernel_passes"])
def test_opt_reads_the_kernels_that_it_prints(
    module: str, stage: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "all.kernel"
    assert main(["opt", module, f"--stage={stage}", "-o", str(path)]) == 0
    assert main(["opt", str(path), "--passes=cache-rows"]) == 0
    assert capfdbinary.readouterr().out == path.read_bytes()


KERNEL = """loop over [@0 < 4, @1 < 8] {
  b0 = in f32[32]
  b1 = out f32[32]
  pass over [] {
    v0 = f32 load b0[8*@0+@1]
    b1[8*@0+@1] = v0
  }
}
"""


def test_opt_runs_kernel_passes(
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "")  # the command adds its flags to the variable
    path, kept = tmp_path / "x.txt", tmp_path / "after.txt"
    path.write_text(KERNEL)
    flags = ["opt", str(path), "--format=kernel", "-o", str(kept)]
    assert main([*flags, "--passes=unmask-loads"]) == 0
    assert kept.read_text() == KERNEL
    assert main([*flags, "--passes=unmask-loads,collapse-axes", "--print-changed"]) == 0
    assert "*** 1: collapse-axes (kernel) ***" in capfdbinary.readouterr().out.decode()
    assert "b1[@0] = v0" in kept.read_text()
    assert main(flags) == 0
    assert "b1[@0] = v0" in kept.read_text()
    assert main([*flags, "--xla_disable_hlo_passes=collapse-axes"]) == 0
    assert kept.read_text() == KERNEL


@pytest.mark.parametrize(
    ("passes", "text", "error"),
    [
        ("collapse-axis", KERNEL, "did you mean 'collapse-axes'?"),
        ("dce", KERNEL, "these are all: known-indices, "),
        ("collapse-axes", KERNEL.replace("load b0", "load b9"), "buffer_number: a load from"),
    ],
)
def test_opt_refuses_other_kernels_and_passes(
    passes: str, text: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.kernel"
    path.write_text(text)
    assert main(["opt", str(path), f"--passes={passes}"]) == 1
    assert error in capsys.readouterr().err
    assert main(["opt", str(path), "--stage=llvm"]) == 2


def test_opt_dumps_what_its_passes_do(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = tmp_path / "dumps"
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={dumps} --xla_dump_hlo_pass_re=.*")
    assert main(["opt", module, "--passes=algsimp,dce", "-o", str(tmp_path / "after.hlo")]) == 0
    suffixes = {path.name.split(".example.")[1] for path in dumps.iterdir()}
    assert suffixes == {
        "before_optimizations.txt",
        "0000.opt.start.before_algsimp.txt",
        "0001.opt.after_algsimp.txt",
        "cpu_after_optimizations.txt",
    }


def test_debug_levels_show_modules_and_code(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(level: int) -> set[str]:
        monkeypatch.setenv("INGOT_DEBUG", str(level))
        assert main(["run", module]) == 0
        lines = capsys.readouterr().err.splitlines()
        return {line.split("] ")[1].split()[0] for line in lines if line.startswith("[ingot")}

    assert shown(1) == {"compiled"}
    assert shown(2) - shown(1) == {"pass.run", "kernel"}
    assert shown(4) - shown(3) == {"module", "loops"}
    assert shown(5) - shown(4) == {"buffers", "kernels", "llvm"}
