# SPDX-License-Identifier: Apache-2.0
"""tfcompile's flags and config: the graph of its documentation, linked into a C++ program."""

import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

import ingot
from ingot.tools.cli import main

GXX = shutil.which("g++")

CONFIG = """
# Each feed is a positional input argument for the generated function.
feed {
  id { node_name: "x_hold" }
  shape { dim { size: 2 } dim { size: 3 } }
}
feed {
  id { node_name: "y_hold" }
  shape { dim { size: 3 } dim { size: 2 } }
  name: "y"
}
fetch { id { node_name: "x_y_prod" } }
fetch { id { node_name: "x_y_sum" } name: "sum" }
"""

SOURCE = r"""
#include <algorithm>
#include <cstdio>
#include "test_graph.h"

int main() {
  foo::bar::MatMulComp matmul;
  const float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {7, 8, 9, 10, 11, 12};
  std::copy(x, x + 6, matmul.arg0_data());
  std::copy(y, y + 6, matmul.arg1_data());
  if (!matmul.Run()) { std::puts(matmul.error_msg()); return 1; }
  std::printf("%g %g %g %g %g\n", matmul.result0(0, 0), matmul.result0(0, 1), matmul.result0(1, 0),
              matmul.result0(1, 1), matmul.result1(1, 1));
}
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder with the graph, binary and text, its config and a C++ program."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, name="x_hold")
        y = tf.compat.v1.placeholder(tf.float32, name="y_hold")
        tf.matmul(x, y, name="x_y_prod")
        tf.add(tf.reshape(x, [3, 2]), y, name="x_y_sum")
        tf.strings.as_string(x, name="not_asked_for")
    tf.io.write_graph(graph, str(tmp_path), "graph.pb", as_text=False)
    # Not `tf.io.write_graph`: that of TensorFlow 2.20 fails with protobuf 7.
    text = text_format.MessageToString(graph.as_graph_def())
    (tmp_path / "graph.pbtxt").write_text(text, encoding="utf-8")
    (tmp_path / "config.pbtxt").write_text(CONFIG)
    (tmp_path / "main.cc").write_text(SOURCE)
    return tmp_path


@pytest.mark.skipif(GXX is None, reason="no g++ on this machine")
@pytest.mark.parametrize(("graph", "dash"), [("graph.pb", "_"), ("graph.pbtxt", "-")])
def test_the_flags_of_tfcompile(folder, graph, dash):
    flags = [
        f"--graph={folder / graph}",
        f"--config={folder / 'config.pbtxt'}",
        f"--cpp{dash}class=foo::bar::MatMulComp",
        f"--entry{dash}point=__foo_bar__MatMulComp",
        f"--out{dash}object={folder / 'test_graph.o'}",
        f"--out{dash}header={folder / 'test_graph.h'}",
    ]
    assert main(["aot", *flags]) == 0
    assert not list(folder.glob("*.so"))
    command = [
        GXX,
        "-std=c++11",
        "-Wall",
        "-Werror",
        "main.cc",
        "test_graph.o",
        "-lm",
        "-o",
        "main",
    ]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["58", "64", "139", "154", "14"]


def test_a_tensor_inside_the_graph_is_fed_and_sizes_stay_open(folder):
    text = """
    feed { id { node_name: "x_hold" } shape { dim { size: -1 } dim { size: 3 } } }
    feed { id { node_name: "x_y_prod" } shape { dim { size: 2 } } name: "product" }
    fetch { id { node_name: "x_y_prod" } }
    fetch { id { node_name: "x_hold" } }
    """
    (folder / "inner.pbtxt").write_text(text)
    words = [f"--graph={folder / 'graph.pb'}", f"--config={folder / 'inner.pbtxt'}"]
    assert main(["aot", *words, "-o", str(folder / "inner")]) == 0
    run = ingot.load_executable(folder / "libinner.so")
    assert [row.name for row in run.metadata.params] == ["x_hold", "product"]
    product, x = run(np.ones((4, 3), np.float32), np.float32([5, 6]))
    np.testing.assert_array_equal(product, [5, 6])
    assert x.shape == (4, 3)


def test_graphs_and_configs_that_do_not_fit_are_clear_errors(folder, capsys):
    feed = 'feed { id { node_name: "x_hold" } shape { dim { size: 2 } dim { size: 2 } } }'
    fits = feed.replace("{ size: 2 } }", "{ size: 3 } }")
    rows = [
        ('fetch { id { node_name: "absent" } }', "does not fit the config"),
        (feed + 'fetch { id { node_name: "x_y_prod" } }', "does not fit the config"),
        (fits + 'fetch { id { node_name: "x_y_prod" } }', "y_hold"),
        (fits + 'fetch { id { node_name: "not_asked_for" } }', "AsString cannot be in an artifact"),
        ("", "has no fetch"),
        ("nonsense", "is not a tensorflow.tf2xla.Config"),
        ('variable { node_name: "v" }', "must be frozen"),
    ]
    for text, message in rows:
        (folder / "bad.pbtxt").write_text(text)
        words = [f"--graph={folder / 'graph.pb'}", f"--config={folder / 'bad.pbtxt'}"]
        assert main(["aot", *words, "-o", str(folder / "bad")]) != 0
        assert message in capsys.readouterr().err
    assert main(["aot", f"--graph={folder / 'graph.pb'}", "-o", "bad"]) != 0
    assert "--graph and --config" in capsys.readouterr().err
