# SPDX-License-Identifier: Apache-2.0
"""Rows that begin anywhere in a cache line, whose first vector ends where the line does."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.dtype import dtype
from ingot.kernel.analysis import peeled_rows
from ingot.llvm.target import TargetSpec, host_levels

TYPES = ("f32", "f64", "s32", "u8", "s16", "c64", "pred")

BIASED = """HloModule biased

ENTRY main {
  x = T[ROWS,WIDTH] parameter(0)
  b = T[WIDTH] parameter(1)
  rows = T[ROWS,WIDTH] broadcast(b), dimensions={1}
  either = T[ROWS,WIDTH] OP(x, rows)
  same = pred[ROWS,WIDTH] compare(x, rows), direction=EQ
  ROOT r = (T[ROWS,WIDTH], pred[ROWS,WIDTH]) tuple(either, same)
}
"""

CENTERED = """HloModule centered

sum { a = T[] parameter(0) b = T[] parameter(1) ROOT s = T[] OP(a, b) }

ENTRY main {
  x = T[ROWS,WIDTH] parameter(0)
  b = T[WIDTH] parameter(1)
  zero = T[] constant(0)
  sums = T[ROWS] reduce(x, zero), dimensions={1}, to_apply=sum
  all = T[ROWS,WIDTH] broadcast(sums), dimensions={0}
  ROOT r = T[ROWS,WIDTH] OP(x, all)
}
"""


def text(program: str, element: str, rows: int, width: int) -> str:
    op = "or" if element == "pred" else "add"
    made = program.replace("ROWS", str(rows)).replace("WIDTH", str(width))
    zero = "constant((0, 0))" if element == "c64" else "constant(0)"
    return made.replace("constant(0)", zero).replace("T[", f"{element}[").replace("OP", op)


def arrays(element: str, rows: int, width: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    kind = dtype(element).numpy
    return [random.integers(0, 3, size).astype(kind) for size in ((rows, width), width)]


@pytest.fixture
def _all_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peel rows that end before the cache line does, too."""
    monkeypatch.setattr(peeled_rows, "least_lines", lambda ops, *, is_costly: 0)


@pytest.mark.usefixtures("_all_are_long")
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("program", [BIASED, CENTERED], ids=["biased", "centered"])
@pytest.mark.parametrize("width", [16, 65, 131, 259])
def test_rows(program: str, element: str, width: int) -> None:
    for level in ("", host_levels()[0]):
        made = parse_hlo(text(program, element, 7, width))
        agrees(made, arrays(element, 7, width), level=level)


@pytest.mark.parametrize(("program", "peeled"), [(BIASED, "[True]"), (CENTERED, "[False, True]")])
def test_which_passes_are_peeled(program: str, peeled: str) -> None:
    target = TargetSpec.at_level("avx512")
    long, aligned, short = (
        ingot.compile(parse_hlo(text(program, "f32", 40, width)), target=target)
        for width in (257, 320, 63)
    )
    assert f"peeled={peeled}" in long.as_text("schedule")
    assert "peeled" not in aligned.as_text("schedule") + short.as_text("schedule")


def test_result_in_the_memory_of_an_operand_is_computed_once() -> None:
    made = parse_hlo("""HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY e {
  x = f32[40,257] parameter(0)
  y = f32[257] parameter(1)
  rows = f32[40,257] broadcast(y), dimensions={1}
  ROOT r = f32[40,257] add(x, rows)
}""")
    x = np.arange(40 * 257, dtype=np.float32).reshape(40, 257)
    np.testing.assert_array_equal(ingot.compile(made)(x.copy(), np.ones(257, np.float32)), x + 1)


def test_sums_do_not_depend_on_addresses() -> None:
    """Only what is stored for each point is peeled."""
    executable = ingot.compile(parse_hlo(text(CENTERED, "f32", 9, 257)))
    x = np.random.default_rng(0).standard_normal((9, 257)).astype(np.float32)
    results = []
    for offset in range(4):
        moved = np.zeros(x.size + 4, np.float32)[offset : offset + x.size].reshape(x.shape)
        moved[:] = x
        results.append(np.asarray(executable(moved, x[0])))
    assert all(result.tobytes() == results[0].tobytes() for result in results)
