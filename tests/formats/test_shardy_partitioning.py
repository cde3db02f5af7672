# SPDX-License-Identifier: Apache-2.0
"""Why Shardy's last pass, which makes the program of one device, is not run.

Each program comes through the passes that are run; `sdy-convert-global-to-local` of this jaxlib
then takes only the first one. When a jaxlib takes all of them, `passes/spmd` has only modules
without Shardy's dialect to do.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytest.importorskip("jaxlib", reason="its MLIR has Shardy's passes")
pytestmark = pytest.mark.slow

RUN = """
import sys
from ingot.formats.stablehlo.binding import new_context, read_mlir, run_passes
from ingot.formats.stablehlo.propagation import propagate
module = read_mlir(new_context(), sys.stdin.read().encode())
propagate(module)
print("propagated", flush=True)
run_passes(module, ["sdy-convert-global-to-local"])
print(module)
"""
PROGRAM = """
module @m attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(
      %a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %b: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> RESULT {
BODY
  }
}
"""
PRODUCT = """
    %0 = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
"""
REFUSED = {
    "loop": (
        "tensor<8x4xf32>",
        """
    %z = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %z, %v = %a) : tensor<i32>, tensor<8x4xf32>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %o = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %o : tensor<i32>
      %w = stablehlo.add %v, %v : tensor<8x4xf32>
      stablehlo.return %j, %w : tensor<i32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>""",
    ),
    "slice": (
        "tensor<3x4xf32>",
        """
    %0 = stablehlo.slice %a [1:7:2, 0:4] : (tensor<8x4xf32>) -> tensor<3x4xf32>
    return %0 : tensor<3x4xf32>""",
    ),
    "CHLO": (
        "tensor<8x4xf32>",
        """
    %0 = chlo.erf %a : tensor<8x4xf32> -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>""",
    ),
}
SUMMANDS = (
    '(tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>})',
    PRODUCT
    + """
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
    return %1 : tensor<4x4xf32>""",
)


def run(result: str, body: str) -> subprocess.CompletedProcess[str]:
    text = PROGRAM.replace("RESULT", result).replace("BODY", body)
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("propagated"), done.stderr
    return done


def test_a_product_becomes_the_program_of_one_device() -> None:
    done = run("tensor<4x4xf32>", PRODUCT + "    return %0 : tensor<4x4xf32>")
    assert done.returncode == 0, done.stderr
    assert "stablehlo.all_reduce" in done.stdout
    assert "tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>" in done.stdout


@pytest.mark.parametrize("name", REFUSED)
def test_programs_that_are_refused(name: str) -> None:
    done = run(*REFUSED[name])
    assert done.returncode == 1
    assert "INGOT0120" in done.stderr


def test_summands_end_the_process() -> None:
    done = run(*SUMMANDS)
    assert done.returncode == -signal.SIGABRT
    assert "to have one user and the user is an sdy.all_reduce" in done.stderr
