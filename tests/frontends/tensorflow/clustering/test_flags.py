# SPDX-License-Identifier: Apache-2.0
"""`TF_XLA_FLAGS`: names, values, defaults and errors as in TensorFlow."""

import logging
from pathlib import Path

import pytest

from ingot.frontends.tensorflow.api import xla_flags as flags
from ingot.frontends.tensorflow.clustering.candidates import ops_to_cluster
from ingot.support.diagnostics import FlagError


def test_values_and_defaults(tmp_path):
    assert flags.parse("") == flags.ClusteringFlags()
    found = flags.parse(
        "--tf_xla_auto_jit=2 --tf_xla_clustering_debug --tf_xla_cpu_global_jit=false "
        "--tf_xla_cluster_exclude_ops=Where,Unique --tf_xla_clustering_fuel=12"
    )
    assert (found.auto_jit, found.clustering_debug, found.cpu_global_jit) == (2, True, False)
    assert found.cluster_exclude_ops == ("Where", "Unique")
    assert found.clustering_fuel == 12
    assert found.min_cluster_size == 4
    file = tmp_path / "flags"
    file.write_text("--tf_xla_min_cluster_size=7")
    assert flags.parse(str(file)).min_cluster_size == 7


@pytest.mark.parametrize(
    ("value", "level"), [("1", 1), ("-1", -1), ("fusible", 1), ("single-gpu(2)", 0)]
)
def test_levels(value, level):
    assert flags.parse(f"--tf_xla_auto_jit={value}").auto_jit == level


def test_groups_of_ops():
    assert flags.parse("--tf_xla_auto_jit=fusible").ops_to_cluster == ("FUSIBLE",)
    fusible = ops_to_cluster(["FUSIBLE"])
    assert {"Tanh", "Softmax", "TopKV2", "Reshape"} < fusible
    assert "MatMul" not in fusible
    assert "MatMul" in ops_to_cluster(["RED", "MatMul"])
    with pytest.raises(FlagError, match="'NoSuchOp' passed to --tf_xla_ops_to_cluster"):
        ops_to_cluster(["NoSuchOp"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--tf_xla_nonsense", "Unknown flag in TF_XLA_FLAGS: --tf_xla_nonsense"),
        ("--tf_a --tf_b=1", "Unknown flags in TF_XLA_FLAGS: --tf_a --tf_b"),
        ("--tf_xla_min_cluster_size=x", "Couldn't interpret value x for flag"),
        ("--tf_xla_clustering_debug=maybe", "Couldn't interpret value maybe for flag"),
        ("--tf_xla_auto_jit=single-gpu(x)", "Couldn't interpret value"),
        ("no_such_file", "cannot be read"),
    ],
)
def test_errors(text, message):
    with pytest.raises(FlagError) as caught:
        flags.parse(text)
    assert message in caught.value.diagnostic.message
    assert caught.value.diagnostic.hint


def test_what_has_no_effect_is_said_once(caplog):
    with caplog.at_level(logging.WARNING, "ingot.tensorflow"):
        flags.parse("--tf_xla_print_cluster_outputs=true")
        flags.parse("--tf_xla_print_cluster_outputs=true")
    assert [item.getMessage() for item in caplog.records] == [
        "Ingot: --tf_xla_print_cluster_outputs has no effect. Use tf.print."
    ]


def test_the_page_holds_the_table():
    page = Path(__file__).parents[4] / "docs" / "tensorflow_clustering.md"
    assert flags.markdown() in page.read_text(encoding="utf-8")
