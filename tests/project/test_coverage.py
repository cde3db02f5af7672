# SPDX-License-Identifier: Apache-2.0
"""docs/coverage.md says what is so: which op runs on which element type."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from ingot.hlo.opdef import table

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage.md"
FAST = ("add", "convert", "reverse")


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("op_coverage", ROOT / "tools" / "op_coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["op_coverage"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


tool = _tool()


def test_every_opcode_is_on_the_page() -> None:
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(table())


def test_every_hole_has_a_reason() -> None:
    assert "NOT EXPLAINED" not in PAGE.read_text()


@pytest.mark.fast_share(8)
@pytest.mark.parametrize(
    "opcode",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in tool.measured_opcodes()
    ],
)
def test_each_row_of_the_page_equals_its_measurement(opcode: str) -> None:
    cells = tool.row_of(opcode)
    errors = {name: cell.error for name, cell in cells.items() if cell.error}
    assert tool.row_text(opcode, cells) in PAGE.read_text().splitlines(), errors
