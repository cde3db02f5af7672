# SPDX-License-Identifier: Apache-2.0
"""Which TensorFlow the front end stands behind, and what becomes of one that it does not know."""

import logging
import re
import sys
import tomllib
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import atomic_function, concrete_function
from tensorflow.python.framework import ops

from ingot.frontends.tensorflow import hook
from ingot.frontends.tensorflow.api import series
from ingot.frontends.tensorflow.api.patching import Patches
from ingot.frontends.tensorflow.graphs import variable_access
from ingot.support.diagnostics import UnsupportedError
from ingot.tools.script_runner import EnableAfterImport

ROOT = Path(__file__).parents[4]


@pytest.fixture
def unknown(monkeypatch):
    """A TensorFlow that belongs to no tested series, once the ops are registered."""
    hook.enable()
    hook.disable()
    monkeypatch.setattr(series, "TESTED", ())
    for function in (series.tell_if_untested, variable_access.layout_problem):
        function.cache_clear()
    yield
    hook.disable()
    for function in (series.tell_if_untested, variable_access.layout_problem):
        function.cache_clear()


def test_this_tensorflow_is_one_of_the_tested_series():
    assert series.current() is not None


def test_the_extra_installs_just_the_tested_series():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [wanted] = extras["optional-dependencies"]["tensorflow"]
    first, last = series.TESTED[0].version, series.TESTED[-1].version
    major, minor = map(int, last.split("."))
    assert wanted == f"tensorflow>={first},<{major}.{minor + 1}"


def test_another_series_is_told_once_and_works(unknown, caplog):
    with caplog.at_level(logging.WARNING, "ingot.tensorflow"):
        for _ in range(2):
            hook.enable()
            hook.disable()
    assert [item.getMessage() for item in caplog.records if "tested" in item.getMessage()] == [
        f"Ingot is tested with TensorFlow , and this is {tf.__version__}: what it relies on may "
        f"have changed. If something is wrong, {series.INSTALL}"
    ]
    assert tf.__version__ in variable_access.layout_problem()


def test_a_missing_name_is_an_error_and_nothing_stays_replaced(monkeypatch):
    hook.disable()
    before = atomic_function.from_func_graph, ops.Graph._as_graph_def
    monkeypatch.delattr(concrete_function._TapeGradientFunctions, "_build_functions_for_outputs")
    with pytest.raises(UnsupportedError, match=r"INGOT0313.*_build_functions_for_outputs"):
        hook.enable()
    assert not hook.is_enabled()
    assert (atomic_function.from_func_graph, ops.Graph._as_graph_def) == before


def test_a_function_that_takes_something_else_is_an_error(monkeypatch):
    def from_func_graph(name, graph, attrs, function_type, overwrite, *, new):
        raise AssertionError

    hook.disable()
    monkeypatch.setattr(atomic_function, "from_func_graph", from_func_graph)
    with pytest.raises(UnsupportedError, match="unexpected keyword argument 'new'"):
        hook.enable()
    assert not hook.is_enabled()


@pytest.mark.parametrize(
    "original",
    [lambda a, b: 0, lambda a, b=1, *, c=2: 0, lambda *a, **b: 0],
    ids=["plain", "defaults", "any"],
)
def test_a_replacement_of_any_arguments_fits_every_function(monkeypatch, original):
    module = type(sys)("module")
    module.function = original
    patches = Patches()
    patches.replace(module, "function", lambda _: lambda *args, **kwargs: 1)
    assert module.function(1, 2) == 1
    patches.undo()
    assert module.function is original


def test_a_signature_of_no_series_is_an_error(unknown, monkeypatch):
    def fail(*_):
        raise AttributeError("no such thing")

    monkeypatch.setattr(hook, "_replace_all", fail)
    with pytest.raises(UnsupportedError, match="not as Ingot knows it: AttributeError"):
        hook.enable()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("UnsupportedError('it lacks a name', code='INGOT0313')", r"error\[INGOT0313\]: it lacks"),
        ("AttributeError('lacks it')", "not as Ingot knows it: AttributeError: lacks it"),
    ],
)
def test_a_program_imports_a_framework_that_has_no_front_end(
    tmp_path, monkeypatch, capsys, error, said, strict
):
    (tmp_path / "imported_framework.py").write_text("value = 3\n")
    (tmp_path / "front_end_of_it.py").write_text(
        "from ingot.support.diagnostics import UnsupportedError\n"
        "def enable():\n"
        f"    raise {error}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("INGOT_STRICT", str(int(strict)))
    for name in ("imported_framework", "front_end_of_it"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(
        sys,
        "meta_path",
        [EnableAfterImport("imported_framework", "front_end_of_it"), *sys.meta_path],
    )
    if strict:
        with pytest.raises((UnsupportedError, AttributeError), match="lacks"):
            __import__("imported_framework")
        return
    assert __import__("imported_framework").value == 3
    assert re.search(f"runs without Ingot: .*{said}", capsys.readouterr().err)
