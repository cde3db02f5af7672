# SPDX-License-Identifier: Apache-2.0
"""`ingot.diff`: functions of frameworks held against the framework, and modules against HLO."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.__main__ import main
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.support.diagnostics import ArgumentError
from ingot.tools.diffs.function_diff import Function, Op, diff_function
from ingot.tools.programs.comparing import Bounds
from ingot.tools.programs.platforms import PLATFORMS, Program

BOUNDS = Bounds(1e-3, 1e-3)
ONE, TWO = np.float32([1.0]), np.float32([2.0])


def _function(got: list[Any], want: list[Any], ops: list[Op]) -> Function:
    return Function("f", "the other way", got, want, lambda: ops, ())


def test_the_first_op_that_differs_is_named() -> None:
    ops = [Op("add", "a.py:1", ONE, ONE), Op("mul", "a.py:2", ONE, TWO), Op("sub", "", ONE, TWO)]
    diff = diff_function(_function([ONE, ONE], [ONE, TWO], ops), BOUNDS)
    assert not diff.agrees
    assert str(diff).splitlines() == [
        "f, against the other way: output 1 differs in 1 of 1 elements: [0] is 1.0, not 2.0 "
        "(allowed: absolute 0.001 or relative 0.001)",
        "first op that differs: mul",
        "  at a.py:2",
        "  it differs in 1 of 1 elements: [0] is 1.0, not 2.0",
    ]
    assert "no op differs" in str(diff_function(_function([ONE], [TWO], ops[:1]), BOUNDS))


def test_results_that_agree_cost_no_look_at_ops() -> None:
    def never() -> list[Op]:
        raise AssertionError

    function = Function("f", "the other way", [ONE], [ONE], never, ())
    assert diff_function(function, BOUNDS).agrees


def test_a_module(tmp_path: Path) -> None:
    text = "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] exponential(x) }"
    assert ingot.diff(text, np.float32([1, 2, 3, 4])).agrees
    path = tmp_path / "m.hlo"
    path.write_text(text)
    assert ingot.diff(path, np.ones(4, np.float32)).title == "m"
    with pytest.raises(ArgumentError, match="by name"):
        ingot.diff(text, x=1)
    with pytest.raises(ArgumentError, match="type int, which diff cannot run"):
        ingot.diff(3)


def _cosines_for_sines(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = PLATFORMS["evaluator"]

    def compiled(module: Module) -> Program:
        made = module.clone()
        for computation in made.computations.values():
            for op in [one for one in computation.instructions if one.opcode == "sine"]:
                computation.replace(op, Builder(computation).cosine(*op.operands))
        return plain(made)

    monkeypatch.setitem(PLATFORMS, "cpu", compiled)


def test_a_function_of_jax(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jax: Any = pytest.importorskip("jax")
    function = jax.jit(lambda x, more: jax.numpy.sin(jax.nn.relu(x) + more["a"]) * 2)
    x = jax.numpy.linspace(-1, 1, 8)
    assert ingot.diff(function, x, {"a": x}).agrees
    _cosines_for_sines(monkeypatch)
    diff = ingot.diff(function, x, {"a": x})
    assert not diff.agrees
    text = str(diff)
    assert text.startswith("<lambda>, against JAX with jit off: output 0 differs in 8 of 8")
    assert "first op that differs: sin of float32[8]" in text
    assert f"at {__file__}:" in text
    assert "first instruction that differs: %sine = f32[8]" in text
    command = diff.save(tmp_path / "small.hlo")
    assert command.startswith(f"ingot run {tmp_path / 'small.hlo'} --abs-error-bound=0.001")
    assert main(command.split()[1:]) == 1


def test_static_arguments_of_jax_are_refused() -> None:
    jax: Any = pytest.importorskip("jax")
    function = jax.jit(lambda x, n: x * n, static_argnums=1)
    with pytest.raises(ArgumentError, match="static arguments"):
        ingot.diff(function, jax.numpy.ones(3), 2)
    key = jax.random.key(0)
    assert ingot.diff(jax.jit(lambda key: jax.random.uniform(key, (3,))), key).agrees


@pytest.mark.slow
def test_a_program_of_jax(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jax: Any = pytest.importorskip("jax")
    script = tmp_path / "program.py"
    script.write_text(
        "import jax, functools\n"
        "import jax.numpy as jnp\n"
        "@jax.jit\n"
        "def inner(x):\n"
        "    return jnp.tanh(x)\n"
        "@functools.partial(jax.jit, donate_argnums=())\n"
        "def outer(x):\n"
        "    return inner(x) + 1\n"
        "class Model:\n"
        "    @jax.jit\n"
        "    def apply(self):\n"
        "        return 1\n"
        "assert outer(jnp.ones(3)).shape == (3,)\n"
        "assert jax.grad(lambda x: outer(x).sum())(jnp.ones(3)).shape == (3,)\n"
        "assert outer.lower(jnp.ones(3)) is not None\n"
    )
    before = jax.jit
    assert main(["diff", str(script)]) == 0
    assert jax.jit is before
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "outer, against JAX with jit off"
    ]


PROGRAM = """
import tensorflow as tf
steps = tf.Variable(0.0)

@tf.function(jit_compile=True)
def same(x, more, k=2):
    steps.assign_add(1.0)
    return {"a": tf.sin(x) * k, "b": more[0] + steps}

@tf.function(jit_compile=True)
def other(x):
    return x + 1 if tf.executing_eagerly() else x

same(tf.ones(3), [tf.ones(3)], k=3)
same(tf.ones(3), [tf.ones(3)])
other(tf.ones(3))
assert steps.numpy() == 2.0, steps
"""

CHECKS = """
import sys
import tensorflow as tf
import ingot
from ingot.__main__ import main
from ingot.tools.diffs import tensorflow_diff

ingot.tensorflow.enable()
v = tf.Variable(tf.ones(3))

@tf.function(jit_compile=True)
def several(x, k=2):
    y = tf.nn.relu(x) * v
    v.assign(y)
    return y + k

function = tensorflow_diff.run_both(several, (tf.constant([-1.0, 2.0, 3.0]),), {})
ops = {op.name.split()[0]: op for op in function.ops()}
assert v.numpy().tolist() == [1.0, 1.0, 1.0]
assert {"Relu", "Mul", "AddV2"} <= set(ops), ops
assert ops["Relu"].got.tolist() == ops["Relu"].want.tolist() == [0.0, 2.0, 3.0]
assert ops["Mul"].got.tolist() == ops["Mul"].want.tolist() == [0.0, 2.0, 3.0]
assert ops["Mul"].location.endswith("checks.py:13"), ops["Mul"].location
(case,) = function.cases
assert len(case.inputs) == len(case.module.entry.parameters)
assert [value.tolist() for value in function.got] == [[2.0, 4.0, 5.0], [0.0, 2.0, 3.0]]
sys.exit(main(["diff", sys.argv[1]]))
"""


@pytest.mark.slow
def test_functions_and_programs_of_tensorflow(tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    program, checks = tmp_path / "program.py", tmp_path / "checks.py"
    program.write_text(PROGRAM)
    checks.write_text(CHECKS)
    done = subprocess.run(
        [sys.executable, str(checks), str(program)],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert done.returncode == 1, done
    lines = [line for line in done.stdout.splitlines() if "against" in line or "op differs" in line]
    assert lines[0].startswith("same, against TensorFlow run eagerly: all results agree"), done
    assert lines[1].startswith("other, against TensorFlow run eagerly: output 0 differs in 3 of 3")
    assert lines[2].startswith("no op differs")
    assert len(lines) == 3


@pytest.mark.slow
def test_a_module_of_pytorch() -> None:
    torch: Any = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Tanh())
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert str(ingot.diff(model, x)).startswith("Sequential, against PyTorch run eagerly: all")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    class Other(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x * (2.0 if torch.compiler.is_compiling() else 3.0)

    diff = ingot.diff(torch.compile(Other()), torch.ones(3))
    assert not diff.agrees
    assert "output 0 differs in 3 of 3 elements: [0] is 2.0, not 3.0" in str(diff)
    assert "all results agree" in diff.lines[-1]
