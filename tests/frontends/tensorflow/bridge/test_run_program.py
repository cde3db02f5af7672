# SPDX-License-Identifier: Apache-2.0
"""`python -m ingot PROGRAM`: as plain Python, with Ingot enabled once TensorFlow is imported."""

import importlib
import subprocess
import sys

import pytest

from ingot.tools.script_runner import EnableAfterImport

REPORT = """
import sys
print(__name__, __file__, sys.argv, sys.path[0])
import pickle
class Thing: pass
assert isinstance(pickle.loads(pickle.dumps(Thing())), Thing)
"""


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("target", [["program.py"], ["-m", "program"]])
def test_a_program_sees_what_plain_python_shows(tmp_path, target):
    (tmp_path / "program.py").write_text(REPORT)
    plain = run(*target, "a", "--flag", cwd=tmp_path)
    ours = run("-m", "ingot", *target, "a", "--flag", cwd=tmp_path)
    assert plain.returncode == ours.returncode == 0, ours.stderr
    assert ours.stdout == plain.stdout
    assert "--flag" in ours.stdout


def test_without_tensorflow_nothing_else_is_imported(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys, json\n"
        "print([n for n in sys.modules if n.startswith(('ingot.', 'numpy', 'llvmlite'))])"
    )
    # `import ingot` itself looks at the platform and knows its version; a hook awaits TensorFlow.
    expected = (
        "['ingot.support', 'ingot.support.lazy', 'ingot.support.platforms', "
        "'ingot.support.versions', 'ingot.tools', 'ingot.support.import_hooks', "
        "'ingot.tools.script_runner']"
    )
    assert run("-m", "ingot", "program.py", cwd=tmp_path).stdout.strip() == expected


def test_exit_status_and_errors(tmp_path):
    (tmp_path / "leave.py").write_text("import sys; sys.exit(7)")
    (tmp_path / "fail.py").write_text("def f():\n    raise ValueError('no')\nf()\n")
    assert run("-m", "ingot", "leave.py", cwd=tmp_path).returncode == 7
    plain, ours = (run(*start, "fail.py", cwd=tmp_path) for start in ((), ("-m", "ingot")))
    assert ours.returncode == plain.returncode == 1
    assert "ValueError: no" in ours.stderr
    assert "ingot" not in ours.stderr
    assert run("-m", "ingot", "missing.py", cwd=tmp_path).returncode == 2
    assert "usage" in run("-m", "ingot", cwd=tmp_path).stderr


@pytest.mark.slow
def test_tensorflow_is_enabled_after_its_import(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "assert 'ingot.tensorflow' not in sys.modules\n"
        "import tensorflow\n"
        "import ingot.tensorflow\n"
        "print(ingot.tensorflow.is_enabled())\n"
    )
    result = run("-m", "ingot", "program.py", cwd=tmp_path)
    assert result.stdout.strip() == "True", result.stderr


@pytest.mark.slow
def test_tensorflow_is_enabled_if_the_front_end_imports_it(tmp_path):
    (tmp_path / "program.py").write_text(
        "import ingot.tensorflow\nprint(ingot.tensorflow.is_enabled())\n"
    )
    result = run("-m", "ingot", "program.py", cwd=tmp_path)
    assert result.stdout.strip() == "True", result.stderr
    assert "without Ingot" not in result.stderr


@pytest.mark.parametrize("first", ["one_framework", "one_front_end"])
def test_a_front_end_is_enabled_once_whatever_comes_first(tmp_path, monkeypatch, capsys, first):
    (tmp_path / "one_framework.py").write_text("")
    (tmp_path / "one_front_end.py").write_text(
        "import one_framework\ndef enable():\n    print('enabled')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    hook = EnableAfterImport("one_framework", "one_front_end")
    monkeypatch.setattr(sys, "meta_path", [hook, *sys.meta_path])
    for name in ("one_framework", "one_front_end"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in (first, "one_framework", "one_front_end"):
        importlib.import_module(name)
    assert capsys.readouterr() == ("enabled\n", "")
    assert hook not in sys.meta_path


def test_a_framework_is_imported_without_collections(tmp_path, monkeypatch, capsys):
    (tmp_path / "one_framework.py").write_text("import gc\nprint(gc.isenabled())\n")
    (tmp_path / "one_front_end.py").write_text(
        "import gc\ndef enable():\n    print(gc.isenabled())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        sys, "meta_path", [EnableAfterImport("one_framework", "one_front_end"), *sys.meta_path]
    )
    for name in ("one_framework", "one_front_end"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.import_module("one_framework")
    assert capsys.readouterr() == ("False\nTrue\n", "")


def test_a_program_that_sets_up_no_logging_sees_warnings(tmp_path):
    (tmp_path / "program.py").write_text(
        "import tensorflow as tf\n"
        "@tf.function(jit_compile=True)\n"
        "def step(x):\n"
        "    return tf.strings.length(tf.strings.as_string(x)) + 1\n"
        "print(step(tf.ones(2)).numpy())\n"
    )
    ours = run("-m", "ingot", "program.py", cwd=tmp_path)
    assert ours.stdout.strip() == "[9 9]"
    assert "Ingot: TensorFlow runs a part of the function 'step'" in ours.stderr
    assert "AsString (node 'AsString' at " in ours.stderr
