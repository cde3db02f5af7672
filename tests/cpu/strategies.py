# SPDX-License-Identifier: Apache-2.0
"""The table of strategies with some left out; the parts of the library that a program runs."""

import pytest

import ingot
from ingot.cpu.strategies import table

OWN = {"contraction", "attention", "loops", "merge sort"}
"""Strategies whose code is compiled with the program, and the sort that takes any comparator."""


def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run contractions and loops in code of their own, sorts by merging, from now on."""

    def asked_about(kind: type[table.Kernel]) -> tuple[table.Strategy, ...]:
        return tuple(item for item in table.STRATEGIES if kind in item.kinds and item.name in OWN)

    monkeypatch.setattr(table, "_asked_about", asked_about)


def library_parts(executable: ingot.Executable) -> list[str]:
    """Return the parts of the library that a program runs, kernel by kernel."""
    compiled = executable.inspection.compiled.kernels.compiled.values()
    return [part.name for kernel in compiled for part in kernel.shared]
