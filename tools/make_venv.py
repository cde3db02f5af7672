# SPDX-License-Identifier: Apache-2.0
"""Make the project's own virtual environment and install Ingot with some extras into it.

Called by the Makefile with the machine's Python, so only the standard library is used and old
Pythons can at least read this file. Safe to call again: a broken or half-made environment is
made anew, a good one is only brought up to date.

Some systems (Debian without python3-venv) have pip but not `ensurepip`; there the environment is
made empty and the machine's pip installs into it.

A requirement among the extras (`tensorflow==2.20.*`) chooses a version where Ingot allows several.

Example:
    python3 tools/make_venv.py .venv dev
    python3 tools/make_venv.py .venv-tensorflow-2.20 test 'tensorflow==2.20.*'
"""

import subprocess
import sys
import venv
from pathlib import Path

MINIMUM_VERSION = (3, 11)


def works(python: Path) -> bool:
    """Return whether `python` is an interpreter that starts and has pip."""
    if not python.exists():
        return False
    command = [str(python), "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def create(folder: Path) -> None:
    """Make the environment `folder` with pip in it, from nothing."""
    try:
        import ensurepip  # noqa: F401 - only its presence matters
    except ImportError:
        venv.create(folder, clear=True, with_pip=False)
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
        subprocess.run([*pip, "install", "pip"], check=True)
    else:
        venv.create(folder, clear=True, with_pip=True)


def main(arguments: list[str]) -> int:
    """Make the environment named first and install Ingot with the extras named after it."""
    if sys.version_info < MINIMUM_VERSION:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        print(f"Ingot needs Python {wanted} or newer, this is {sys.version.split()[0]}.")
        print("Name another one: make PYTHON=python3.12 ...")
        return 1
    folder, given = Path(arguments[0]), arguments[1:]
    versions = [item for item in given if "=" in item]
    extras = [item for item in given if "=" not in item]
    python = folder / "bin" / "python"
    if not works(python):
        create(folder)
    requirement = f".[{','.join(extras)}]"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    print(f"installing {' '.join([requirement, *versions])} into {folder} ...", flush=True)
    command += ["--editable", requirement, *versions]
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        # As pip does for a package that it copies; where PYTHONDONTWRITEBYTECODE is set, each
        # process would compile the sources again.
        subprocess.run([str(python), "-m", "compileall", "-q", "src"], check=False)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
