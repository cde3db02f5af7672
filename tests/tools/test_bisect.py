# SPDX-License-Identifier: Apache-2.0
"""`ingot bisect`: the pass to blame is named; when none is, the machine code is looked at too."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

import ingot
import ingot.tools.bisect as bisect
from ingot.__main__ import main
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.hlo.rewrite.pass_base import Pass, PassContext, Pipeline
from ingot.kernel.expr import Expr, make
from ingot.kernel.ir import LoopKernel
from ingot.kernel.passes import pipeline
from ingot.kernel.passes.pipeline import KERNEL_PASSES, KernelPass
from ingot.passes.simplify.dead_code import dead_code_elimination
from ingot.support.records import record, replace
from ingot.tools.programs.platforms import PLATFORMS, Program, cpu_program

MODULE = """HloModule example
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  s = f32[4] add(x, y)
  ROOT m = f32[4] multiply(s, y)
}
"""


@record
class Wrong(Pass):
    """Makes every sum a difference, or spoils the module."""

    name: ClassVar[str] = "wrong"
    spoils: bool = False

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite the entry."""
        for op in [i for i in module.entry.instructions if i.opcode == "add"]:
            build = Builder(module.entry)
            made = build.subtract(*op.operands)
            module.entry.replace(op, made)
            if self.spoils:
                module.entry.set_shape(made, made.shape.with_dtype("s32"))
            return True
        return False


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "example.hlo"
    path.write_text(MODULE)
    return str(path)


def test_nothing_is_to_blame(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", module]) == 0
    assert "passes and machine code keep what it means" in capsys.readouterr().out


def test_the_pass_to_blame_is_named(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (dead_code_elimination, Wrong(), dead_code_elimination)
    monkeypatch.setattr(bisect, "PIPELINE", Pipeline("some", steps))
    assert main(["bisect", module]) == 1
    printed = capsys.readouterr().out
    assert "pass 2, wrong, changes what it means" in printed
    assert "output 0 differs in 4 of 4 elements" in printed


def test_a_pass_that_fails_is_named(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bisect, "PIPELINE", Pipeline("some", (Wrong(spoils=True),)))
    assert main(["bisect", module]) == 1
    printed = capsys.readouterr().out
    assert "a pass fails" in printed
    assert "wrong" in printed


def test_machine_code_may_be_to_blame(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = PLATFORMS["evaluator"]

    def wrong(given: Module, context: PassContext) -> Program:
        return lambda values: [one + 1 for one in run(given)(values)]

    monkeypatch.setattr(bisect, "cpu_program", wrong)
    assert main(["bisect", module]) == 1
    assert "the machine code does not" in capsys.readouterr().out


def _negated(kernel: LoopKernel) -> LoopKernel:
    passes = [
        replace(item, stores=tuple(replace(s, value=_minus(s.value)) for s in item.stores))
        for item in kernel.passes
    ]
    return replace(kernel, passes=tuple(passes))


def _minus(value: Expr) -> Expr:
    return make("negate", value.dtype, (value,), NO_ATTRIBUTES)


def test_a_kernel_pass_may_be_to_blame(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = KERNEL_PASSES
    wrong = KernelPass("negate-stores", _negated)
    monkeypatch.setattr(pipeline, "KERNEL_PASSES", (first, wrong, *others))
    assert main(["bisect", module]) == 1
    printed = capsys.readouterr().out
    assert "kernel pass 2, negate-stores, changes what a kernel means" in printed
    assert "output 0 differs in" in printed


NETWORK = """HloModule network
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER
}
ENTRY main {
  x = f32[5,3] parameter(0)
  ROOT r = f32[5,3] sort(x), dimensions={0}, to_apply=less
}
"""


def test_a_kernel_pass_of_a_network_may_be_to_blame(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops that a strategy builds go through the same passes; code that is kept hides none."""
    path = tmp_path / "network.hlo"
    path.write_text(NETWORK)
    (kernel,) = ingot.compile(NETWORK).kernels
    assert kernel.strategy == "sorting network"
    first, *others = KERNEL_PASSES
    wrong = KernelPass("negate-stores", _negated)
    monkeypatch.setattr(pipeline, "KERNEL_PASSES", (first, wrong, *others))
    assert main(["bisect", str(path)]) == 1
    printed = capsys.readouterr().out
    assert "kernel pass 2, negate-stores, changes what a kernel means" in printed


def test_without_kernel_passes_machine_code_may_still_be_to_blame(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(given: Module, context: PassContext) -> Program:
        real = cpu_program(given, context)
        return lambda values: [one + 1 for one in real(values)]

    monkeypatch.setattr(bisect, "cpu_program", wrong)
    assert main(["bisect", module]) == 1
    assert "the machine code does not" in capsys.readouterr().out


def test_sizes_and_inputs_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, inputs = tmp_path / "symbolic.hlo", tmp_path / "inputs.txt"
    path.write_text(MODULE.replace("f32[4]", "f32[?n]"))
    inputs.write_text("f32[2] {1, 2}\nf32[2] {3, 4}\n")
    assert main(["bisect", str(path), "--size", "n=3"]) == 0
    assert main(["bisect", str(path), f"--input-literals-file={inputs}"]) == 0
    assert capsys.readouterr().out.count("keep what it means") == 2
