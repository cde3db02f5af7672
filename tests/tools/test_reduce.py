# SPDX-License-Identifier: Apache-2.0
"""`ingot reduce`: what is left still fails in the same way, and is small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ingot.tools.reduce as reduce
from ingot.__main__ import main
from ingot.formats.hlo_text import parse
from ingot.tools.programs.cases import Case, inputs_in
from ingot.tools.programs.comparing import Bounds
from ingot.tools.reduction.graph import reduce_graph
from ingot.tools.reduction.subgraph import subgraph, values_of
from ingot.tools.reduction.trials import Outcome, Trials

MODULE = """HloModule example

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
body { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[8] tanh(v)
  ROOT t = (s32[], f32[8]) tuple(j, w) }
condition { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main {
  x = f32[8,8] parameter(0)
  e = f32[8,8] exponential(x)
  zero = f32[] constant(0)
  r = f32[8] reduce(e, zero), dimensions={1}, to_apply=add
  start = s32[] constant(0)
  state = (s32[], f32[8]) tuple(start, r)
  loop = (s32[], f32[8]) while(state), body=body, condition=condition
  v = f32[8] get-tuple-element(loop), index=1
  m = f32[8] multiply(v, v)
  q = f32[8] negate(m)
  ROOT out = (f32[8], f32[8,8]) tuple(q, e)
}
"""
EXACT = ["--abs-error-bound=0", "--rel-error-bound=0"]


def _opcodes(text: str) -> list[str]:
    module = parse(text)
    return sorted(
        item.opcode
        for computation in module.computations.values()
        for item in computation.instructions
        if item.opcode not in ("parameter", "constant")
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "example.hlo"
    path.write_text(MODULE)
    return path


def _case() -> Case:
    return Case(parse(MODULE), (np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8),))


def test_an_op_in_the_middle_is_found() -> None:
    small = reduce_graph(_case(), lambda case: " multiply(" in case.text())
    assert _opcodes(small.text()) == ["multiply"]
    assert small.inputs is not None
    assert len(inputs_in(small.text())) == len(small.module.entry.parameters) == 1


def test_an_op_inside_of_a_loop_is_found() -> None:
    small = reduce_graph(_case(), lambda case: " tanh(" in case.text())
    assert _opcodes(small.text()) == ["tanh"]


def test_a_loop_that_has_to_stay_stays() -> None:
    small = reduce_graph(_case(), lambda case: " while(" in case.text())
    assert "while" in _opcodes(small.text())
    assert not {"exponential", "reduce", "multiply", "tanh"} & set(_opcodes(small.text()))


def test_values_that_became_inputs_are_those_they_had() -> None:
    case = _case()
    values = values_of(case)
    part = subgraph(case, {"m"}, values)
    assert part is not None
    again = values_of(part)
    assert (again["m"] == values["m"]).all()
    assert part.outputs == (None,)
    assert subgraph(case, {"e", "q"}, values).outputs == (0, 1)  # type: ignore[union-attr]
    assert subgraph(case, set(), values) is None


@pytest.mark.slow  # processes begin
def test_other_results_are_reduced(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compiled code sums in another order than the evaluator, which counts with bounds of 0."""
    small = path.with_name("small.hlo")
    path.write_text(MODULE.replace("8,8", "64,64").replace("f32[8]", "f32[64]"))
    assert main(["reduce", str(path), *EXACT, "-o", str(small)]) == 0
    assert "it fails with: differs" in capsys.readouterr().err
    assert _opcodes(small.read_text()) in (["add", "reduce"], ["exponential"])
    assert main(["run", str(small), *EXACT]) == 1
    assert "differ" in capsys.readouterr().out


@pytest.mark.slow  # processes begin
def test_an_error_keeps_its_code(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = 'm = f32[8] custom-call(v), custom_call_target="nobody"'
    path.write_text(MODULE.replace("m = f32[8] multiply(v, v)", refused))
    assert main(["reduce", str(path)]) == 0
    printed = capsys.readouterr()
    assert "it fails with: INGOT03" in printed.err
    assert _opcodes(printed.out) == ["custom-call"]
    assert inputs_in(printed.out) == []


@pytest.mark.slow  # processes begin
def test_text_that_is_no_module_is_cut_by_lines(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(MODULE.replace("multiply(v, v)", "multiplied(v, v)"))
    assert main(["reduce", str(path)]) == 0
    printed = capsys.readouterr()
    assert "INGOT0102" in printed.err
    assert "multiplied" in printed.out
    assert len(printed.out.splitlines()) < 10


@pytest.mark.slow
def test_a_program_that_does_not_fail_is_said_so(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reduce", str(path)]) == 1
    assert "does not fail" in capsys.readouterr().err


def test_a_command_may_say_what_fails(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", str(path), "--test=grep -q negate("]) == 0
    assert _opcodes(capsys.readouterr().out) == ["negate"]


@pytest.mark.slow  # processes begin
def test_crashes_and_hangs_are_survived(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = "tests.tools.misbehaving_worker"
    with Trials(Bounds(0.1, 0.1), seconds=1, worker=worker) as trials:
        bad = "HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] OP(x) }"
        assert trials.of(bad.replace("OP", "sine")).signature == "hang"
    with Trials(Bounds(0.1, 0.1), worker=worker) as trials:
        crashed = trials.of(bad.replace("OP", "tanh"))
        assert crashed.signature == "crash: SIGSEGV"
        assert "Segmentation fault" in crashed.detail
        assert not crashed.compiled
        assert trials.of(bad.replace("OP", "negate")) == Outcome()
        assert trials.of(bad.replace("OP", "tanh")).signature == "crash: SIGSEGV"
    monkeypatch.setattr(reduce.Trials.__init__, "__kwdefaults__",
                        {"seed": 0, "seconds": 60.0, "worker": worker})  # fmt: skip
    assert main(["reduce", str(path)]) == 0
    printed = capsys.readouterr()
    assert "it fails with: crash: SIGSEGV" in printed.err
    assert _opcodes(printed.out) == ["tanh"]
