# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets: what makes cases, and what says whether a case went well.

A target is one file in `tests/fuzz/targets/` that holds a `TARGET`. Cases are bytes: the content of
a file that a person can open and run again. `worker` runs them in a child process, so a check may
end its process; that, a hang and any exception that it does not catch are findings.

Example:
    data = target("exact_programs").generate(random.Random(7))
    assert target("exact_programs").check(data) == ""
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import tests.fuzz.targets


@dataclass(frozen=True, slots=True)
class Target:
    """What is fuzzed.

    Attributes:
        name: the name of its file.
        suffix: the ending of a file that holds a case (".hlo", ".pb", ".py").
        generate: makes a case from a generator that a seed began.
        check: returns "" if a case went well, else what is wrong in one line.
        share: how much of a campaign's time it gets, beside others' shares.
        seconds: a case that takes longer hangs.
        memory: bytes of address space that the child process may have.
        environment: variables of the child process.
        runs_compiler: whether most cases reach the compiler, so that it pays to note functions.
    """

    name: str
    suffix: str
    generate: Callable[[random.Random], bytes]
    check: Callable[[bytes], str]
    share: float = 1.0
    seconds: float = 30.0
    memory: int = 24 << 30
    environment: tuple[tuple[str, str], ...] = ()
    runs_compiler: bool = True


def target_names() -> list[str]:
    """Return the names of all targets."""
    return sorted(found.name for found in pkgutil.iter_modules(tests.fuzz.targets.__path__))


@cache
def target(name: str) -> Target:
    """Return a target by name; one with dots names a module elsewhere."""
    module = name if "." in name else f"tests.fuzz.targets.{name}"
    found: Target = importlib.import_module(module).TARGET
    assert found.name == name
    return found
