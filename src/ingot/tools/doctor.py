# SPDX-License-Identifier: Apache-2.0
"""`ingot doctor`: checks of this installation, with advice for each problem.

Each check examines one thing and returns a `Finding`. A check never raises: a failure in it is its
finding. Exit status 0: no problem; 1: there is one. A warning is not a problem: Ingot runs, but not
as fast as it could, or not as it is tested.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ingot.support import flags
from ingot.support.records import record
from ingot.support.trusted_files import distrust
from ingot.support.versions import NEEDED, TESTED, installed, versions
from ingot.tools.programs.options import switch

OK, WARNING, PROBLEM = "ok", "warning", "problem"
FRAMEWORKS = {**TESTED, "torch": ("2.13",)}
"""Framework -> the series that its front end is tested with."""
_COLORS = {OK: "green", WARNING: "yellow", PROBLEM: "red"}
SELF_TEST = """HloModule doctor
ENTRY main {
  x = f32[4] parameter(0)
  two = f32[] constant(2)
  twos = f32[4] broadcast(two), dimensions={}
  ROOT y = f32[4] multiply(x, twos)
}
"""


@record
class Finding:
    """What one check found.

    Attributes:
        name: the name of the check.
        status: `ok`, `warning` or `problem`.
        text: the finding.
        advice: what to do; nothing if all is well.
    """

    name: str
    status: str
    text: str
    advice: str = ""


def check_versions() -> list[Finding]:
    """Return Ingot's own version, Python's and the system's."""
    found = versions()
    return [Finding(name, OK, str(found[name])) for name in ("ingot", "python", "platform")]


def check_packages() -> list[Finding]:
    """Look for the packages that Ingot requires."""
    advice = "pip install --upgrade ingot-compiler"
    return [
        Finding(name, OK, found)
        if (found := installed(name))
        else Finding(name, PROBLEM, "not installed", advice)
        for name in NEEDED
    ]


def check_frameworks() -> list[Finding]:
    """Compare the installed frameworks with the series that the front ends are tested with."""
    return [framework(name, installed(name)) for name in FRAMEWORKS]


def framework(name: str, version: str | None) -> Finding:
    """Return the finding about a version of a framework; a missing framework is no problem."""
    extra = {"jaxlib": "jax"}.get(name, name)
    install = f"pip install 'ingot-compiler[{extra}]'"
    if version is None:
        return Finding(name, OK, "not installed", f"to use Ingot behind it: {install}")
    if ".".join(version.split(".")[:2]) in FRAMEWORKS[name]:
        return Finding(name, OK, f"{version}, a tested series")
    series = " and ".join(FRAMEWORKS[name])
    text = f"{version}; Ingot is tested with {series}"
    return Finding(name, WARNING, text, f"if something is wrong: {install}")


def check_machine() -> list[Finding]:
    """Look at the CPU, its vector instructions, the threads and LLVM."""
    from ingot.llvm.binding import llvm
    from ingot.llvm.target import host_levels
    from ingot.runtime.native import default_num_threads

    usable, threads = len(os.sched_getaffinity(0)), default_num_threads()
    text = f"{threads} of {usable} CPUs that this process may run on"
    return [
        Finding("cpu", OK, str(llvm.get_host_cpu_name())),
        isa_level(flags.CPU_LEVEL.value(), host_levels()),
        Finding("threads", OK, text)
        if threads <= usable
        else Finding("threads", WARNING, text, "set INGOT_NUM_THREADS to at most the CPUs"),
        Finding("llvm", OK, ".".join(map(str, llvm.llvm_version_info))),
    ]


def isa_level(chosen: str, levels: tuple[str, ...]) -> Finding:
    """Check the level that `INGOT_CPU_LEVEL` chooses among those of the CPU, widest first."""
    name, best = "isa level", levels[0]
    if chosen not in ("auto", *levels):
        advice = f"unset INGOT_CPU_LEVEL to use {best}"
        return Finding(
            name, PROBLEM, f"INGOT_CPU_LEVEL is {chosen}, but this CPU has {best}", advice
        )
    if chosen not in ("auto", best):
        advice = f"unset INGOT_CPU_LEVEL to use {best}"
        return Finding(name, WARNING, f"{chosen}, this CPU has {best}", advice)
    if best == "plain":
        text = "plain: this CPU has no AVX2, programs run several times slower"
        return Finding(name, WARNING, text, "use a CPU with AVX2, or let the VM pass it on")
    return Finding(name, OK, best)


def check_cache() -> list[Finding]:
    """Check that the cache of compiled objects can be used: it is private and has room."""
    folder, name = Path(flags.CACHE_DIR.value()), "cache"
    if not flags.CACHE.value():
        return [Finding(name, WARNING, "off (INGOT_CACHE=0): each process compiles everything")]
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    move = "set INGOT_CACHE_DIR to a folder of your own"
    if reason := distrust(folder):
        return [Finding(name, PROBLEM, f"{folder} is not private: {reason}", move)]
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return [Finding(name, PROBLEM, f"{folder} cannot be written", move)]
    made = "private and writable" if existing == folder else "not made yet; it can be"
    return [Finding(name, OK, f"{folder}, {made}")]


def check_self_test() -> list[Finding]:
    """Compile a small program and run it."""
    import numpy as np

    import ingot

    given = np.arange(4, dtype=np.float32)
    result = np.asarray(ingot.compile(ingot.parse_hlo(SELF_TEST))(given))
    if np.array_equal(result, given * 2):
        return [Finding("self-test", OK, "a program was compiled, ran and was right")]
    text = f"[0 1 2 3] * 2 gave {result}"
    return [Finding("self-test", PROBLEM, text, "report it with the output of this command")]


CHECKS: dict[str, Callable[[], list[Finding]]] = {
    "versions": check_versions,
    "packages": check_packages,
    "frameworks": check_frameworks,
    "machine": check_machine,
    "cache": check_cache,
    "self-test": check_self_test,
}


def examine() -> list[Finding]:
    """Return the findings of all checks."""
    found: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            found += check()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            advice = "reinstall: pip install --force-reinstall ingot-compiler; else report it"
            found.append(Finding(name, PROBLEM, text, advice))
    return found


def _show(findings: list[Finding], console: Console) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for finding in findings:
        mark = Text(finding.status, style=_COLORS[finding.status])
        table.add_row(mark, Text(finding.name), Text(finding.text))
        if finding.advice:
            table.add_row("", "", Text(f"-> {finding.advice}"))
    console.print(table)


@click.command(name="doctor")
@switch("--json", "Print the findings as JSON.")
def command(**given: bool) -> int:
    """Check this installation; say what to do for each problem.

    Exit status 0: no problem; 1: a problem.
    """
    findings = examine()
    problems = [finding for finding in findings if finding.status == PROBLEM]
    if given["json"]:
        print(_as_json(findings, ok=not problems))
    else:
        _show(findings, Console(file=sys.stdout))
        print(_summary(len(problems)))
    return 1 if problems else 0


def _as_json(findings: list[Finding], *, ok: bool) -> str:
    return json.dumps({"ok": ok, "findings": [asdict(one) for one in findings]}, indent=2)


def _summary(problems: int) -> str:
    if not problems:
        return "no problem found"
    return f"{problems} problem{'s' if problems > 1 else ''}"
