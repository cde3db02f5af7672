# SPDX-License-Identifier: Apache-2.0
"""What fails inside a compilation is an InternalError whose note names a file of the module."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

import ingot
from ingot.client import compilation
from ingot.client.compile import compile
from ingot.formats.hlo_text import print_module
from ingot.support.diagnostics import (
    IngotError,
    InternalError,
    ResourceError,
    UnsupportedError,
)

TEXT = "HloModule kept ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] cosine(x) }"


def failed(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> pytest.ExceptionInfo[IngotError]:
    """Return what a compilation raises in which `error` is raised."""

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(compilation, "compile_module", fail)
    monkeypatch.setenv("INGOT_FP", "exact")
    with pytest.raises(IngotError) as caught:
        compile(ingot.parse_hlo(TEXT))
    return caught


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ZeroDivisionError("division"), "INGOT0901"),
        (RecursionError(), "INGOT0901"),
        (InternalError("a promise", code="INGOT0930"), "INGOT0930"),
    ],
)
def test_the_module_is_kept(
    error: Exception, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    caught = failed(error, monkeypatch, tmp_path).value
    assert isinstance(caught, InternalError)
    assert caught.diagnostic.code == code
    assert caught.__cause__ is error
    found = re.search(r"kept in (\S+\.hlo)", str(caught))
    assert found is not None
    text = Path(found.group(1)).read_text()
    assert "INGOT_FP='exact'" in text
    assert print_module(ingot.parse_hlo(text)) == print_module(ingot.parse_hlo(TEXT))


def test_errors_of_the_program_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = UnsupportedError("no code for this")
    assert failed(error, monkeypatch, tmp_path).value is error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(errno.ENOMEM, "memory"), OSError(errno.EMFILE, "files")]
)
def test_limits_of_the_machine_are_no_bugs(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    caught = failed(error, monkeypatch, tmp_path).value
    assert isinstance(caught, ResourceError)
    assert caught.diagnostic.code == "INGOT0401"


def test_what_cannot_be_kept_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    caught = failed(KeyError("a"), monkeypatch, tmp_path / "none").value
    assert "could not be kept" in str(caught)
    assert "KeyError" in str(caught)
