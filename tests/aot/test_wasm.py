# SPDX-License-Identifier: Apache-2.0
"""WebAssembly modules, linked without a linker and run by Node, agree with the evaluator."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.aot.cross import NAMES, Case, cases, leaves
from tests.aot.programs import PROGRAMS

import ingot
from ingot.aot.build import compile_aot
from ingot.aot.targets import target_of
from ingot.aot.wasm_link import Part, link_wasm
from ingot.evaluator import evaluate
from ingot.llvm.jit import compile_object
from ingot.support.diagnostics import InternalError
from ingot.tools.cli import main
from ingot.tools.programs.inputs import random_inputs

NODE = shutil.which("node")
TRIPLE = "wasm32-unknown-unknown"
RUNNER = Path(__file__).with_name("run_wasm.js")

needs_node = pytest.mark.skipif(NODE is None, reason="no node on this machine")


def run(folder, made):
    """Run cases in one process; return what it printed."""
    rows = []
    for case in made:
        case.write_inputs(folder)
        (folder / f"{case.name}.wasm").write_bytes(case.program.library)
        (folder / f"{case.name}.weights").write_bytes(case.program.weights)
        found = case.program.metadata
        rows.append(
            {
                "name": case.name,
                "symbol": found.symbol,
                "dims": [list(np.shape(value)) for value in case.inputs],
                "results": [row.name for row in found.outputs],
                "num_sizes": found.num_sizes,
                "output_bytes": found.output_bytes,
                "weights": bool(case.program.weights),
            }
        )
    done = subprocess.run(
        [NODE, str(RUNNER), str(folder)],
        input=json.dumps(rows), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Run all cases; return the folder, the cases, and what was printed."""
    folder = tmp_path_factory.mktemp("wasm")
    made = cases(TRIPLE)
    return folder, made, run(folder, list(made.values()))


@pytest.mark.slow  # 36 programs are compiled
@needs_node
@pytest.mark.parametrize("name", NAMES)
def test_a_module_computes_what_the_evaluator_does(outcome, name):
    folder, made, printed = outcome
    assert f"{name} 0\n" in printed
    made[name].check(folder)


def case_of(text, name, **options):
    module = ingot.parse_hlo(text)
    inputs = random_inputs(module, 5)
    wanted = [np.asarray(one) for one in leaves(evaluate(module, inputs))]
    return Case(name, inputs, wanted, compile_aot(module, name, triple=TRIPLE, **options))


BY_IMPORT = """
HloModule remainders
ENTRY main {
  x = f32[23] parameter(0)
  y = f32[23] parameter(1)
  ROOT r = f32[23] remainder(x, y)
}
"""
LARGE_ANGLES = """
HloModule angles
ENTRY main {
  x = f32[9] parameter(0)
  big = f32[] constant(3e17)
  by = f32[9] broadcast(big), dimensions={}
  angle = f32[9] multiply(x, by)
  s = f32[9] sine(angle)
  c = f32[9] cosine(angle)
  ROOT all = (f32[9], f32[9]) tuple(s, c)
}
"""


@needs_node
@pytest.mark.parametrize("text", [BY_IMPORT, LARGE_ANGLES], ids=["remainder", "angles"])
def test_ops_without_an_instruction_of_webassembly(tmp_path, text):
    case = case_of(text, "lacks")
    assert run(tmp_path, [case]) == "lacks 0\n"
    case.check(tmp_path)


@needs_node
def test_weights_from_the_caller(tmp_path):
    case = case_of(PROGRAMS["weights"], "given", weights="caller")
    assert len(case.program.weights) == case.program.metadata.constant_bytes > 0
    assert run(tmp_path, [case]) == "given 0\n"
    case.check(tmp_path)


def test_the_command_writes_a_module(tmp_path, capsys):
    (tmp_path / "net.hlo").write_text(PROGRAMS["softmax"])
    options = [f"--target-triple={TRIPLE}", "-o", str(tmp_path / "net")]
    assert main(["aot", str(tmp_path / "net.hlo"), *options]) == 0
    assert (tmp_path / "net.wasm").read_bytes()[:4] == b"\0asm"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["net.h", "net.hlo", "net.mjs", "net.wasm"]
    assert "net.wasm: " in capsys.readouterr().out


JAVASCRIPT = r"""
import { readFileSync } from "node:fs";
import { Program } from "./net.mjs";
const net = await Program.load(readFileSync("net.wasm"));
const rows = { data: Float32Array.from([1, 2, 3, 4, 5, 6]), dims: [2, 3] };
// Each call allocates nine blocks of 64 KiB: if they were not given back, memory would be full.
for (let round = 0; round < 10000; ++round) net.run(rows, rows);
const [sum, product] = net.run(rows, rows);
console.log(sum.dims.join(), sum.data.join(), product.data.join());
for (const wrong of [new Float64Array(6), { data: rows.data, dims: [3, 3] }, rows.data]) {
  try { net.run(rows, wrong); } catch (error) { console.log(error.message); }
}
try { net.run(rows, { data: new Float32Array(9), dims: [3, 3] }); }
catch (error) { console.log(error.message); }
try { net.run(rows); } catch (error) { console.log(error.message); }
"""


@needs_node
def test_the_javascript_module_takes_and_gives_arrays(tmp_path):
    (tmp_path / "net.hlo").write_text(PROGRAMS["symbolic"])
    options = [f"--target-triple={TRIPLE}", "-o", str(tmp_path / "net")]
    assert main(["aot", str(tmp_path / "net.hlo"), *options]) == 0
    (tmp_path / "main.mjs").write_text(JAVASCRIPT)
    done = subprocess.run(
        [NODE, "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    wrong = "argument 'y' must be a Float32Array of f32[?,3]"
    assert done.stdout.splitlines() == [
        "2,3 2,4,6,8,10,12 1,4,9,16,25,36",
        *[wrong] * 3,
        "dimension 0 of 'y' must be n (n is dimension 0 of 'x')",
        "  hint: pass arguments whose sizes agree",
        "net takes 2 arguments",
    ], done.stderr


def test_calls_of_outside_code_are_refused():
    text = (
        PROGRAMS["f32"]
        .replace("multiply(s, x)", "multiply(s, l)")
        .replace("  ROOT", '  l = f32[7,13] custom-call(x), custom_call_target="mine"\n  ROOT')
    )
    with pytest.raises(ingot.UnsupportedError, match="'mine' cannot be in an artifact"):
        compile_aot(ingot.parse_hlo(text), "c", triple=TRIPLE)


def test_a_call_by_another_type_is_found_when_it_is_linked():
    spec = target_of(triple=TRIPLE).baseline.spec
    caller = "declare void @g(i64)\ndefine void @f() { call void @g(i64 1) ret void }"
    for word, fits in (("i64", True), ("i32", False)):
        parts = [
            Part(compile_object(text, spec))
            for text in (caller, f"define void @g({word} %x) {{ ret void }}")
        ]
        if fits:
            assert link_wasm(parts, {}, {"f": "f"})[:4] == b"\0asm"
            continue
        with pytest.raises(InternalError, match="'g' is called with another type"):
            link_wasm(parts, {}, {"f": "f"})
