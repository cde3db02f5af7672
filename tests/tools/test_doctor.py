# SPDX-License-Identifier: Apache-2.0
"""`ingot doctor` and `show_versions`: what is found, what is advised, the exit status."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

import ingot
from ingot.__main__ import main
from ingot.support import versions
from ingot.tools import doctor

ROOT = Path(__file__).resolve().parents[2]


def by_name(findings):
    return {finding["name"]: finding for finding in findings}


def test_a_sound_installation_has_no_problem(capsys):
    status = main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    found = by_name(report["findings"])
    assert (status, report["ok"]) == (0, True), report
    assert found["ingot"]["text"] == ingot.__version__
    assert found["self-test"]["status"] == "ok"
    assert {"cpu", "isa level", "threads", "llvm", "cache", "numpy", "jax", "torch"} <= set(found)


def test_the_release_of_pytorch_is_that_of_the_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (torch,) = extras["optional-dependencies"]["torch"]
    (series,) = doctor.FRAMEWORKS["torch"]
    assert torch.startswith(f"torch=={series}.")
    assert doctor.framework("torch", f"{series}.0+cpu").status == doctor.OK
    assert doctor.framework("torch", "2.9.1").status == doctor.WARNING


def test_an_open_cache_folder_is_a_problem(tmp_path, monkeypatch, capsys):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path))
    assert main(["doctor"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "is not private" in shown
    assert "set INGOT_CACHE_DIR" in shown
    assert "1 problems" not in shown
    assert "1 problem" in shown


def test_a_cache_folder_may_be_made_in_a_sticky_one(tmp_path, monkeypatch):
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    (found,) = doctor.check_cache()
    assert found.status == doctor.OK


def test_a_cache_folder_that_is_not_there_yet_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "a" / "b"))
    (found,) = doctor.check_cache()
    assert (found.status, (tmp_path / "a").exists()) == ("ok", False)


def test_a_failing_check_is_a_finding_and_the_others_still_run(monkeypatch):
    def fail():
        raise OSError("no such CPU")

    monkeypatch.setitem(doctor.CHECKS, "machine", fail)
    found = {finding.name: finding for finding in doctor.examine()}
    assert found["machine"].status == "problem"
    assert "no such CPU" in found["machine"].text
    assert found["self-test"].status == "ok"


@pytest.mark.parametrize(
    ("version", "status"), [("2.21.0", "ok"), (None, "ok"), ("2.19.1", "warning")]
)
def test_untested_series_are_warned_of(version, status):
    assert doctor.framework("tensorflow", version).status == status


@pytest.mark.parametrize(
    ("chosen", "levels", "status"),
    [
        ("auto", ("avx2", "plain"), "ok"),
        ("plain", ("avx2", "plain"), "warning"),
        ("auto", ("plain",), "warning"),
        ("avx512", ("avx2", "plain"), "problem"),
    ],
)
def test_the_level_is_judged(chosen, levels, status):
    assert doctor.isa_level(chosen, levels).status == status


def test_versions_are_shown(capsys):
    ingot.show_versions()
    shown = capsys.readouterr().out
    assert f"ingot  {' ' * (len('tensorflow') - len('ingot'))}{ingot.__version__}" in shown
    assert set(versions.NEEDED) <= set(shown.split())


def test_the_command_says_its_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ingot {ingot.__version__}\n"


def test_other_platforms_are_refused_at_import(monkeypatch):
    from ingot.support.platforms import require_supported_platform

    require_supported_platform()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ImportError, match=r"Linux x86-64 .* this is 64-bit cpython on darwin"):
        require_supported_platform()
