# SPDX-License-Identifier: Apache-2.0
"""The archive of modules: what is imported from it is what Python would import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
from pathlib import Path
from ingot.support.bytecode import Archive
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder.parent))
archive = Archive("some", folder)
sys.meta_path.insert(0, archive)
import some.one, some.inner.two
if sys.argv[2] == "write":
    archive.write()
modules = (some.one, some.inner, some.inner.two)
print(json.dumps({
    "loaders": [type(each.__spec__.loader).__name__ for each in modules],
    "values": [some.one.VALUE, some.inner.VALUE, some.inner.two.VALUE],
    "files": [each.__file__ for each in modules],
    "cached": [each.__cached__ for each in modules],
    "packages": [each.__package__ for each in modules],
    "paths": list(some.inner.__path__),
    "missed": archive.missed,
    "traced": some.one.failing(),
}))
"""
SOURCE = """VALUE = {value}


def failing():
    import traceback
    try:
        1 / 0
    except ZeroDivisionError:
        return traceback.format_exc().splitlines()[2].strip()
"""
OURS, PLAIN = "_Loader", "SourceFileLoader"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "some"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text(SOURCE.format(value=1))
    (folder / "inner" / "__init__.py").write_text("VALUE = 10\n")
    (folder / "inner" / "two.py").write_text("VALUE = 2\n")
    return folder


def run(folder: Path, what: str = "read") -> dict[str, object]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), what],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def test_modules_of_the_archive_are_those_of_python(package: Path) -> None:
    before, after = run(package, "write"), run(package)
    assert before.pop("loaders") == [PLAIN] * 3
    assert after.pop("loaders") == [OURS] * 3
    assert (before.pop("missed"), after.pop("missed")) == (3, 0)
    assert before == after


def test_a_changed_source_is_read_again(package: Path) -> None:
    run(package, "write")
    (package / "one.py").write_text(SOURCE.format(value=12))
    found = run(package)
    assert found["values"] == [12, 10, 2]
    assert found["loaders"] == [PLAIN, OURS, OURS]
    assert found["missed"] == 1


def test_a_source_of_another_time_is_read_again(package: Path) -> None:
    run(package, "write")
    (package / "one.py").write_text(SOURCE.format(value=7))  # As many bytes as before.
    os.utime(package / "one.py", (1, 1))
    assert run(package)["values"] == [7, 10, 2]


def test_a_module_that_is_gone_is_not_found(package: Path) -> None:
    run(package, "write")
    (package / "inner" / "two.py").unlink()
    with pytest.raises(subprocess.CalledProcessError) as error:
        run(package)
    assert "ModuleNotFoundError: No module named 'some.inner.two'" in error.value.stderr


@pytest.mark.parametrize("data", [b"", b"nothing", bytes(100)])
def test_a_broken_archive_is_none(package: Path, data: bytes) -> None:
    run(package, "write")
    (path,) = (package / "__pycache__").glob("*.modules")
    path.write_bytes(data)
    assert run(package)["loaders"] == [PLAIN] * 3


def test_an_archive_that_ends_too_early_is_none(package: Path) -> None:
    run(package, "write")
    (path,) = (package / "__pycache__").glob("*.modules")
    path.write_bytes(path.read_bytes()[:-1])
    assert run(package)["loaders"] == [PLAIN] * 3
