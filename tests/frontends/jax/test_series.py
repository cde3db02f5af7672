# SPDX-License-Identifier: Apache-2.0
"""Which JAX the front end stands behind: others are told of, or left alone with a clear error."""

import logging
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("jax")

from ingot.frontends.jax import registration, series
from ingot.support import versions
from ingot.support.diagnostics import UnsupportedError

ROOT = Path(__file__).resolve().parents[3]


def test_the_tested_series_are_written_alike_everywhere():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (jax, _) = extras["optional-dependencies"]["jax"]
    assert versions.TESTED["jax"] == versions.TESTED["jaxlib"] == series.TESTED
    assert jax == f"jax>={series.TESTED[0]},<0.{int(series.TESTED[-1].split('.')[1]) + 1}"


def test_a_tested_jax_passes_without_a_word(caplog):
    series._tell_if_untested.cache_clear()
    series.check()
    assert caplog.records == []


def test_an_untested_series_is_told_of_once(monkeypatch, caplog):
    monkeypatch.setattr("jax.__version__", "0.99.1")
    series._tell_if_untested.cache_clear()
    with caplog.at_level(logging.WARNING, "ingot.jax"):
        series.check()
        series.check()
    (record,) = caplog.records
    assert "this is 0.99.1" in record.getMessage()
    series._tell_if_untested.cache_clear()


def test_a_jax_without_a_name_is_left_as_it_is(monkeypatch):
    from jax._src import compiler

    before = compiler.backend_compile_and_load
    monkeypatch.setattr(series, "RELIED_ON", (("jax._src.compiler", "not_there"),))
    with pytest.raises(UnsupportedError, match=r"no 'jax\._src\.compiler\.not_there'") as caught:
        registration.register()
    assert caught.value.diagnostic.code == "INGOT0314"
    assert compiler.backend_compile_and_load is before
