# SPDX-License-Identifier: Apache-2.0
"""Programs that a process before left on the disk: they are found by the graph, and not lowered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.client import stored
from ingot.frontends.tensorflow.compiler import FunctionCompiler, compile_with_ingot
from ingot.frontends.tensorflow.graphs import graph_digest
from ingot.frontends.tensorflow.graphs.binding import Binding, Parameter, Result
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedInput,
    CapturedNode,
    FunctionRef,
    PartialShape,
    TensorRef,
    TensorType,
    TypeName,
)
from ingot.frontends.tensorflow.variants.specialisation import CallArguments
from ingot.support.diagnostics import SourceLocation
from ingot.support.records import replace
from ingot.support.sources import sources_stamp

SCRIPT = """
import json, sys
import numpy as np
import ingot.tensorflow
import tensorflow as tf

ingot.tensorflow.enable()
first, second = json.loads(sys.argv[1])
open_sizes = [tf.TensorSpec([None, 3]), tf.TensorSpec([None, 3])]


@tf.function(jit_compile=True)
def static(x):
    return tf.nn.relu(x) * 2.0 + tf.constant([1.0, 2.0, 3.0])


@tf.function(jit_compile=True, input_signature=open_sizes)
def open_rows(x, y):
    return tf.reduce_sum(x * x, 1) + tf.cast(tf.shape(y)[0], tf.float32)


@tf.function(jit_compile=True, input_signature=open_sizes)
def one_size(x, y):
    return x + y


@tf.function(jit_compile=True)
def of_value(x, n):
    return tf.reduce_sum(x) + tf.cast(tf.range(n), tf.float32)


weight = tf.Variable(np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3))


@tf.function(jit_compile=True)
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weight)))
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
    return loss


@tf.function
def outer(x):
    return step(x)


def rows(count):
    return tf.constant(np.arange(count * 3, dtype=np.float32).reshape(count, 3) - 4.0)


def number(value):
    return tf.reduce_sum(value * tf.range(1.0, tf.size(value, tf.float32) + 1.0)).numpy().item()


results = {
    "static": number(tf.reshape(static(rows(5)), [-1])),
    "open_rows": number(open_rows(rows(first), rows(7))),
    "one_size": number(tf.reshape(one_size(rows(first), rows(second)), [-1])),
    "step": number(tf.stack([outer(rows(4)) for _ in range(3)])),
}
lowered = [name for name in sys.modules if name.startswith("ingot.frontends.tensorflow.lowering")]
results["of_value"] = number(of_value(rows(2), tf.constant(first)))
names = ["static", "open_rows", "one_size", "of_value", "step"]
programs = {
    name: "passes" not in compiled[0].timer.root.children["compile"].children
    for key, compiled in ingot.tensorflow.executables().items()
    for name in names
    if f"_{name}_" in key
}
texts = [compiled[0].as_text("hlo") for compiled in ingot.tensorflow.executables().values()]
print(json.dumps([results, programs, lowered, texts]))
"""


def run(folder: Path, first: int, second: int) -> tuple[dict[str, float], dict[str, bool], Any]:
    """Return the results of the script, which programs were found, and what it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([first, second])],
        env={
            **os.environ,
            "INGOT_CACHE_DIR": str(folder),
            "INGOT_CACHE": "1",
            "INGOT_PROGRAM_CACHE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results, programs, *more = json.loads(done.stdout.splitlines()[-1])
    return results, programs, more


def expected(first: int, second: int) -> dict[str, float]:
    def rows(count: int) -> np.ndarray:
        return np.arange(count * 3, dtype=np.float32).reshape(count, 3) - 4

    def number(value: np.ndarray) -> float:
        return float((value.ravel() * np.arange(1.0, value.size + 1)).sum())

    weight = np.linspace(-1, 1, 9).reshape(3, 3)
    losses, x = [], rows(4).astype(np.float64)
    for _ in range(3):
        y = x @ weight
        losses.append(np.square(y).mean())
        weight = weight - 0.1 * x.T @ (2 * y / y.size)
    return {
        "static": number(np.maximum(rows(5), 0) * 2 + [1, 2, 3]),
        "open_rows": number(np.square(rows(first)).sum(1) + 7),
        "one_size": number(rows(first) + rows(second)),
        "of_value": number(rows(2).sum() + np.arange(first)),
        "step": number(np.array(losses)),
    }


LIBRARY: dict[str, CapturedFunction] = {}


def function(name: str = "f", **changes: Any) -> CapturedFunction:
    """Return `x -> Relu(x)`, its node changed."""
    kind = TensorType("float32", (2, None))
    node = CapturedNode(
        "node", "Relu", (TensorRef("x"),), (), {"T": TypeName("float32")}, (kind,), None
    )
    return CapturedFunction(
        name, (CapturedInput("x", kind),), (replace(node, **changes),), (TensorRef("node"),),
        (kind,), (None,), (), LIBRARY,
    )  # fmt: skip


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs are stored, whenever the sources changed."""
    monkeypatch.setenv("INGOT_PROGRAM_CACHE", "1")
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path))
    for module in (graph_digest, stored):
        monkeypatch.setattr(module, "sources_stamp", lambda packages: "now")


def name_of(captured: CapturedFunction, binding: Binding) -> str:
    return graph_digest.GraphDigest.of(captured, binding).name


BINDING = Binding((Parameter(0),), (Result(output=0),))


def test_equal_graphs_have_one_name(named: None) -> None:
    first, second = (name_of(function(), BINDING) for _ in range(2))
    assert first == second != ""


def test_the_numbers_that_tensorflow_gives_to_functions_do_not_matter(
    named: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(caller: str, callees: Sequence[str], order: Sequence[int] = (0, 1)) -> str:
        for callee, changes in zip(callees, ({}, {"op": "Elu"}), strict=True):
            monkeypatch.setitem(LIBRARY, callee, function(callee, **changes))
        called = tuple(FunctionRef(callees[index]) for index in order)
        outer = function(caller, op="Case", attributes={"branches": called})
        return name_of(outer, BINDING)

    first = name("outer_7", ("branch_8", "branch_9"))
    assert name("outer_99", ("branch_101", "branch_100")) == first
    assert name("other_7", ("branch_8", "branch_9")) != first
    assert name("outer_7", ("branch_8", "branch_9"), (1, 0)) != first
    assert name("outer_7", ("branch_8", "branch_9"), (0, 0)) != first
    assert name("outer_7", ("other_8", "branch_9")) != first


VALUES: list[Any] = [
    TypeName("float64"), FunctionRef("float32"), "float32", PartialShape((2, None)),
    PartialShape(None), 1, True, 1.0, 0.0, -0.0, np.zeros(1, np.float32), -np.zeros(1, np.float32),
    np.zeros((1, 1), np.float32), np.zeros(1, np.int32), np.array([b"text"], object),
]  # fmt: skip


def test_graphs_that_differ_have_other_names(named: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIBRARY, "float32", function("float32"))
    changes: list[dict[str, Any]] = [
        {},
        {"op": "Elu"},
        {"name": "other"},
        {"inputs": (TensorRef("x", 1),)},
        {"outputs": (TensorType("float32", None),)},
        {"location": SourceLocation("file.py", 1)},
        {"location": SourceLocation("file.py", 2)},
        *({"attributes": {"T": value}} for value in VALUES),
    ]
    names = [name_of(function(**each), BINDING) for each in changes]
    bindings = [
        Binding((Parameter(0, is_lengths=True),), BINDING.results),
        Binding(BINDING.parameters, (Result(variable=0),)),
        replace(BINDING, has_effects=True),
        replace(BINDING, handed_on=((0, 0),)),
    ]
    names += [name_of(function(), each) for each in bindings]
    assert "" not in names
    assert len(set(names)) == len(names)


def test_a_graph_of_unknown_values_or_large_constants_has_no_name(named: None) -> None:
    for value in (object(), np.zeros(stored.MOST_CONSTANT_BYTES + 1, np.int8)):
        assert name_of(function(attributes={"T": value}), BINDING) == ""


def test_a_program_is_digested_once(named: None, monkeypatch: pytest.MonkeyPatch) -> None:
    digested: list[CapturedFunction] = []
    whole = graph_digest._whole

    def counted(captured: CapturedFunction) -> tuple[Any, ...]:
        digested.append(captured)
        return whole(captured)

    monkeypatch.setattr(graph_digest, "_whole", counted)
    given, other = function(), function(op="Elu")
    compiles = FunctionCompiler(given, BINDING, compile_with_ingot)
    assert compiles.find_refusal() is None
    compiles.compile(CallArguments(((2, 3),)))
    assert digested == [given]
    # What is compiled is not always what was asked about.
    arguments = CallArguments(((2, 3),), digest=graph_digest.GraphDigest.of(given, BINDING))
    compile_with_ingot(other, BINDING, "other", arguments)
    assert digested == [given, given, other]


def test_a_digest_has_a_name_for_the_settings_in_force(
    named: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = graph_digest.GraphDigest.of(function(), BINDING)
    before = digest.name
    monkeypatch.setenv("INGOT_PASS_FUEL", "100")
    assert digest.name != before


def test_a_later_process_finds_programs_and_lowers_nothing(tmp_path: Path) -> None:
    if not (sources_stamp(stored.SOURCES) and sources_stamp(graph_digest.SOURCES)):
        pytest.skip("sources changed a moment ago")
    results, programs, (_, texts) = run(tmp_path, 5, 5)
    assert results == pytest.approx(expected(5, 5), rel=1e-5)
    assert programs == dict.fromkeys(programs, False)

    again, found, (lowered, same) = run(tmp_path, 5, 5)
    assert again == results
    assert lowered == []
    # A program for one value of an argument is lowered for each call that it may be for.
    assert found == dict.fromkeys(programs, True) | {"of_value": found["of_value"]}
    # TensorFlow numbers functions through the process.
    assert [text.partition(",")[2] for text in same] == [text.partition(",")[2] for text in texts]

    # Other sizes are the same program, unless two that were one in it are not.
    other, found, _ = run(tmp_path, 1, 6)
    assert other == pytest.approx(expected(1, 6), rel=1e-5)
    assert found == dict.fromkeys(programs, True) | {"one_size": False, "of_value": False}


@pytest.mark.parametrize("is_stored", [False, True], ids=["not stored", "stored"])
def test_the_compiler_is_there_before_the_first_call_if_no_program_is(
    is_stored: bool, tmp_path: Path
) -> None:
    script = (
        "import sys, ingot.tensorflow\n"
        "ingot.tensorflow.enable()\n"
        "print('ingot.client.compilation' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "INGOT_CACHE_DIR": str(tmp_path),
            "INGOT_PROGRAM_CACHE": str(int(is_stored)),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    assert done.stdout.split() == [str(not is_stored)]
