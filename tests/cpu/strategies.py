# SPDX-License-Identifier: Apache-2.0
"""The table of strategies with some left out."""

import pytest

from ingot.cpu.strategies import table

OWN = {"contraction", "attention", "loops", "merge sort"}
"""Strategies whose code is compiled with the program."""


def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run contractions, loops and sorts in code of their own from now on."""

    def asked_about(kind: type[table.Kernel]) -> tuple[table.Strategy, ...]:
        return tuple(item for item in table.STRATEGIES if kind in item.kinds and item.name in OWN)

    monkeypatch.setattr(table, "_asked_about", asked_about)
