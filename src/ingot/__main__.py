# SPDX-License-Identifier: Apache-2.0
"""`python -m ingot train.py ...`: run an unmodified program with Ingot behind `jit_compile=True`.

`ingot COMMAND ...` and `python -m ingot COMMAND ...` are the command line tools (`ingot.tools`).

Everything is as with plain `python train.py ...` (or `-m module`): `sys.argv`, `__main__`,
`sys.path[0]`, exit status. The one difference: as soon as the program has imported TensorFlow, the
front end is enabled. A program that never imports TensorFlow pays nothing.

Invariant: no part of the compiler is imported before the program asks for TensorFlow.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from ingot.support.versions import VERSION
from ingot.tools import COMMANDS
from ingot.tools.script_runner import run_program

USAGE = """usage: ingot PROGRAM.py [ARGUMENT...]
       ingot -m MODULE [ARGUMENT...]
       ingot COMMAND [OPTION...] [ARGUMENT...]
       ingot --version

Run a Python program; Ingot compiles what it marks with jit_compile=True.
`python -m ingot` is the same command.
Or work on HLO modules; `ingot COMMAND --help` says how:"""


def run_command(arguments: list[str]) -> int:
    """Run a command line tool, which needs what the extra `cli` installs; return the status."""
    missing = [name for name in ("click", "rich") if not _is_installed(name)]
    if missing:
        print(
            f"ingot: `ingot {arguments[0]}` needs {' and '.join(missing)}: "
            "pip install 'ingot-compiler[cli]'",
            file=sys.stderr,
        )
        return 2
    from ingot.support.quick_exit import exit_quickly

    exit_quickly()
    return importlib.import_module("ingot.tools.cli").main(arguments)


def _is_installed(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def usage() -> str:
    """Return how to call: programs, then commands."""
    return "\n".join([USAGE, *(f"  {name:10} {text}" for name, text in COMMANDS.items())])


def _print_usage(file: TextIO) -> None:
    try:
        print(usage(), file=file, flush=True)
    except BrokenPipeError:  # `ingot --help | head`: Python would complain once more as it ends.
        sys.stderr.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program that `arguments` (default: the command line) name; return the status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_module = given[:1] == ["-m"]
    given = given[is_module:]
    if not given or given[0] in ("-h", "--help"):
        _print_usage(sys.stdout if given else sys.stderr)
        return 0 if given else 2
    if not is_module and given[0] == "--version":
        print(f"ingot {VERSION}")
        return 0
    if not is_module and given[0] in COMMANDS:
        return run_command(given)
    if not is_module and not os.path.isfile(given[0]):
        from ingot.support.text import did_you_mean

        hint = did_you_mean(given[0], COMMANDS)
        print(
            f"{usage()}\n\ningot: there is no file or command '{given[0]}'"
            + (f"; {hint}" if hint else ""),
            file=sys.stderr,
        )
        return 2
    return run_program(given, is_module=is_module)


if __name__ == "__main__":
    sys.exit(main())
