# SPDX-License-Identifier: Apache-2.0
"""`ingot diff`: the instruction, the place, the pass and a reproducer that differs by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import ingot.tools.diffs.first_difference as first_difference
from ingot.__main__ import main
from ingot.formats.hlo_text import parse
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext, Pipeline
from ingot.support.records import record
from ingot.tools import bisect
from ingot.tools.diffs.first_difference import Difference
from ingot.tools.programs.cases import Case, inputs_in
from ingot.tools.programs.comparing import Bounds
from ingot.tools.programs.platforms import PLATFORMS, Program
from ingot.tools.reduction.called import called_cases
from ingot.tools.reduction.subgraph import values_of

MODULE = """HloModule example

body { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  half = f32[] constant(0.5)
  halves = f32[4] broadcast(half), dimensions={}
  w = f32[4] multiply(v, halves), metadata={source_file="model.py" source_line=12}
  ROOT t = (s32[], f32[4]) tuple(j, w) }
condition { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  d = f32[4] subtract(x, y), metadata={source_file="model.py" source_line=7}
  start = s32[] constant(0)
  state = (s32[], f32[4]) tuple(start, d)
  loop = (s32[], f32[4]) while(state), body=body, condition=condition
  v = f32[4] get-tuple-element(loop), index=1
  ROOT m = f32[4] negate(v)
}
"""
BOUNDS = Bounds(1e-3, 1e-3)


@record
class Miscompile(Pass):
    """What a wrong compiler makes: another op, in modules of at most so many results."""

    name: ClassVar[str] = "miscompile"
    opcode: str = ""
    other: str = ""
    at_most: int = 1 << 30

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite every computation."""
        root, changed = module.entry.root, False
        if root.opcode == "tuple" and len(root.operands) > self.at_most:
            return False
        for computation in module.computations.values():
            for op in [one for one in computation.instructions if one.opcode == self.opcode]:
                made = Builder(computation).emit(self.other, *op.operands)
                computation.replace(op, made)
                changed = True
        return changed


def _miscompiled(monkeypatch: pytest.MonkeyPatch, wrong: Miscompile) -> None:
    """Let the platform `cpu`, and the passes that `bisect` runs, be wrong."""

    def compiled(module: Module) -> Program:
        made = module.clone()
        wrong.run(made, PassContext())
        return PLATFORMS["evaluator"](made)

    monkeypatch.setitem(PLATFORMS, "cpu", compiled)
    monkeypatch.setattr(bisect, "PIPELINE", Pipeline("some", (wrong,)))


def _difference() -> Difference | None:
    inputs = (np.float32([1, 2, 3, 4]), np.float32([4, 3, 1, 1]))
    return first_difference.first_difference(Case(parse(MODULE), inputs), BOUNDS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "example.hlo"
    path.write_text(MODULE)
    return path


def test_all_agree(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(path)]) == 0
    assert "all results agree within absolute 0.001 or relative 0.001" in capsys.readouterr().out


def test_an_instruction_its_location_and_the_pass_are_named(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _miscompiled(monkeypatch, Miscompile("subtract", "add"))
    small = path.with_name("small.hlo")
    assert main(["diff", str(path), "-o", str(small)]) == 1
    printed = capsys.readouterr().out
    assert "first instruction that differs: %d = f32[4]{0} subtract(%x, %y)" in printed
    assert "at model.py:7" in printed
    assert "from the same operands the evaluator gives another value" in printed
    assert "pass 1, miscompile, changes what it means" in printed
    assert f"reproducer: ingot run {small}" in printed
    text = small.read_text()
    assert [item.opcode for item in parse(text).entry.post_order()].count("subtract") == 1
    assert len(inputs_in(text)) == 2
    assert "while" not in text
    assert main(["run", str(small)]) == 1


def test_a_loop_is_gone_into(monkeypatch: pytest.MonkeyPatch) -> None:
    _miscompiled(monkeypatch, Miscompile("multiply", "add"))
    found = _difference()
    assert found is not None
    assert found.instruction.name == "w"
    assert found.path == ("iteration 0 of loop",)
    assert str(found.instruction.metadata.location) == "model.py:12"


def test_what_further_results_hide_is_found_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _miscompiled(monkeypatch, Miscompile("subtract", "add", at_most=2))
    found = _difference()
    assert found is not None
    assert found.instruction.name == "d"


def test_what_any_further_result_hides_is_no_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    _miscompiled(monkeypatch, Miscompile("subtract", "add", at_most=1))
    assert _difference() is None


def test_an_op_that_enlarges_errors_is_not_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """HloModule m ENTRY e {
      x = f32[2] parameter(0)
      s = f32[2] sine(x)
      k = f32[] constant(1e6)
      b = f32[2] broadcast(k), dimensions={}
      ROOT m = f32[2] multiply(s, b)
    }"""
    plain = PLATFORMS["evaluator"]

    def compiled(module: Module) -> Program:
        """Return a program whose sines are 1e-5 too large."""
        made = module.clone()
        build = Builder(made.entry)
        for op in [one for one in made.entry.instructions if one.opcode == "sine"]:
            more: Any = build.full(1e-5, op.shape)
            copy = made.entry.copy_of(op, op.operands)
            made.entry.replace_all_uses(op, build.add(copy, more))
        return plain(made)

    monkeypatch.setitem(PLATFORMS, "cpu", compiled)
    case = Case(parse(text), (np.float32([0.00001, 0.00002]),))
    found = first_difference.first_difference(case, BOUNDS)
    assert found is not None
    assert found.instruction.name == "m"
    assert found.from_operands is not None
    assert found.from_operands.agrees


def test_called_computations_get_their_arguments() -> None:
    text = """HloModule m
    one { a = f32[] parameter(0)  ROOT r = f32[] negate(a) }
    two { a = f32[] parameter(0)  ROOT r = f32[] sine(a) }
    ENTRY e { p = pred[] parameter(0)  n = s32[] parameter(1)  x = f32[] parameter(2)
      c = f32[] conditional(p, x, x), true_computation=one, false_computation=two
      k = f32[] conditional(n, x, c), branch_computations={one, two}
      l = f32[] call(k), to_apply=two
      ROOT t = (f32[], f32[], f32[]) tuple(c, k, l) }"""
    module = parse(text)
    values = values_of(Case(module, (np.bool_(False), np.int32(7), np.float32(2))))
    names = {item.name: item for item in module.entry.instructions}
    for name, wanted in (("c", "branch 1 of c"), ("k", "branch 1 of k"), ("l", "what l calls")):
        operands = tuple(values[one.name] for one in names[name].operands)
        ((where, case),) = called_cases(module, names[name], operands)
        assert where == wanted
        assert PLATFORMS["evaluator"](case.module)([case.inputs or ()]) == [values[name]]


@pytest.mark.slow
def test_a_program_is_run_and_what_it_compiles_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import ingot\n"
        "ops = ('negate', 'cosine')\n"
        "kept = [ingot.compile('HloModule %s ENTRY e { x = f32[4] parameter(0) '\n"
        "        'ROOT y = f32[4] %s(x) }' % (op, op)) for op in ops]\n"
    )
    assert main(["diff", str(script)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": all results")[0] for line in lines] == [
        f"{script}: negate",
        f"{script}: cosine",
    ]
