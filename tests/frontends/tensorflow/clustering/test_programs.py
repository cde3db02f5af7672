# SPDX-License-Identifier: Apache-2.0
"""Clustered programs compute what TensorFlow's own kernels compute, however they are compiled."""

import fcntl
import json
import os

import numpy as np
import pytest

# A test starts up to four processes of TensorFlow, each of which may take its 300 seconds.
pytestmark = pytest.mark.timeout(1500)

FUNCTIONS = ["straight", "branches", "loops", "arrays", "gradients", "variables", "sizes", "types"]
OTHERS = [
    "datasets",
    "sessions",
    "old_control_flow",
    "keras_training",
    "recurrent_training",
    "old_functions",
    "grappler_off",
    "xla_ops",
]
AUTO = "--tf_xla_auto_jit=2"
MODES = {
    "at_once": f"{AUTO} --tf_xla_async_compilation=false",
    "required": f"{AUTO} --tf_xla_enable_lazy_compilation=false --tf_xla_min_cluster_size=1",
    "background": AUTO,
    "small": f"{AUTO} --tf_xla_async_compilation=false --tf_xla_max_cluster_size=3 "
    "--tf_xla_min_cluster_size=2",
}


def compare(found, wanted, names):
    for name in names:
        for (have, dtype), (want, _) in zip(found[name], wanted[name], strict=True):
            assert np.shape(have) == np.shape(want), name
            exact = not dtype.startswith(("float", "complex"))
            tolerance = 0 if exact else 2e-4
            np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.fixture(scope="session")
def plain(run_programs, tmp_path_factory):
    """What TensorFlow's kernels give: the first worker that asks runs them, the others read."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "plain.json").open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        if not text:
            text = json.dumps(run_programs([*FUNCTIONS, *OTHERS])[0])
            file.write(text)
    return json.loads(text)


def test_functions(run_programs, plain):
    names = ["straight", "branches", "variables", "keras_training", *OTHERS[-3:]]
    found, _ = run_programs(names, MODES["at_once"])
    compare(found, plain, names)
    assert found["clusters"]
    assert found["compiled"] == found["clusters"]
    assert found["compiled by XLA"] == 0
    assert found["traced"]
    assert not found["loops taken apart"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["background", "required", "small"])
def test_programs_in_every_mode(run_programs, plain, mode):
    names = FUNCTIONS if mode == "small" else [*FUNCTIONS, *OTHERS]
    found, stderr = run_programs(names, MODES[mode])
    compare(found, plain, names)
    assert len(found["clusters"]) > 20
    assert "not clustered" not in stderr
    if mode != "background":
        assert len(found["compiled"]) > len(found["clusters"]) // 2


@pytest.mark.slow
def test_who_asks(run_programs, plain):
    """Without flags nothing is clustered but what a program asks for."""
    found, _ = run_programs(["straight", "session_level", "set_jit", "scopes"], "")
    compare(found, plain, ["straight"])
    compare({"straight": found["set_jit"]}, plain, ["straight"])
    wanted = [np.sin(k) * 2 + np.cos(k) * k - np.exp(k) for k in (1.0, 2.0)]
    for (have, _), want in zip(found["session_level"], wanted, strict=True):
        np.testing.assert_allclose(have, np.full(4, want), rtol=1e-5)
    y = np.sin(1.0) * 2
    np.testing.assert_allclose(found["scopes"][0][0], np.full(3, (np.cos(y) + 1) * y), rtol=1e-5)
    np.testing.assert_allclose(found["scopes"][1][0], np.exp([0.0, 1.0, 2.0]), rtol=1e-5)
    assert found["clusters after"]["straight"] == []
    # One of the session, one or two of set_jit (a function is optimized once per its tracings),
    # two of jit_scope.
    assert len(found["clusters"]) >= 4


@pytest.fixture(scope="session")
def without_global(run_programs):
    flags = f"{AUTO} --tf_xla_cpu_global_jit=false"
    return run_programs(["straight", "keras_auto"], flags)


@pytest.mark.slow
def test_switched_off(run_programs, plain, without_global):
    off, _ = run_programs(["straight"], "--tf_xla_auto_jit=-1")
    for found in (off, without_global[0]):
        compare(found, plain, ["straight"])
        assert found["clusters"] == []


@pytest.mark.slow
def test_graphs_are_written_under_xlas_names(run_programs, tmp_path):
    flags = f"{AUTO} --tf_xla_clustering_debug --tf_xla_deterministic_cluster_names"
    first, _ = run_programs(["straight"], flags, TF_DUMP_GRAPH_PREFIX=str(tmp_path))
    for name in (
        "before_mark_for_compilation",
        "mark_for_compilation",
        "mark_for_compilation_annotated",
        "encapsulate_subgraphs_after",
    ):
        text = (tmp_path / f"{name}.pbtxt").read_text()
        assert ("cluster_" in text) == (name != "before_mark_for_compilation")
    assert "Ingot_XlaCompile" in (tmp_path / "encapsulate_subgraphs_after.pbtxt").read_text()
    second, _ = run_programs(["branches", "straight"], flags)
    assert set(first["clusters"]) < set(second["clusters"])


@pytest.mark.slow
def test_a_word_where_nothing_is_compiled(run_programs, without_global):
    word = "not used for models that Keras leaves uncompiled"
    found, stderr = run_programs(["keras_auto", "keras_auto"], "")
    assert found["keras_auto"] == [[False, "bool"]]
    assert stderr.count(word) == 1
    assert word not in run_programs(["keras_auto"], AUTO)[1]
    assert "Ingot clusters nothing" in without_global[1]
