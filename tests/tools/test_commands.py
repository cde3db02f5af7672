"""The `ingot` command: what it prints, its exit statuses, its flags in both spellings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ingot.__main__ import main, usage
from ingot.formats.hlo_text import parse
from ingot.tools import COMMANDS
from ingot.tools.cli import with_dashes

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
    # Nothing is near enough to be off by less than nothing: every element that is not 0 differs.
    flags = ["--abs_error_bound=-1", "--rel_error_bound=-1"]
    path = Path(module)
    path.write_text(MODULE.replace("multiply(s, b)", "exponential(s)"))
    status = main(["run", module, *flags])
    printed = capsys.readouterr().out
    assert status in (0, 1)  # equal elements agree whatever the bounds
    assert ("differ" in printed) == (status == 1)


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


def test_run_with_too_few_literals(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.npy"
    np.save(path, np.zeros(4, np.float32))
    assert main(["run", module, f"--input_literals_file={path}"]) == 1
    assert "INGOT0521" in capsys.readouterr().err


def test_opt_runs_passes(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", module, "--passes=algsimp,dce"]) == 0
    opcodes = [i.opcode for i in parse(capsys.readouterr().out).entry.instructions]
    assert opcodes == ["parameter", "parameter", "add"]


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("hlo-before", "multiply("),
        ("hlo", "fusion("),
        ("kernel", "f32"),
        ("llvm", "define"),
        ("asm", ".globl"),
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


def test_bad_input_shows_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_usage_names_every_command() -> None:
    assert all(f"  {name}" in usage() for name in COMMANDS)


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


@pytest.mark.parametrize("stage", ["hlo-before", "hlo", None])
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
