# SPDX-License-Identifier: Apache-2.0
"""MLIR contexts are used again, but not forever, by two at once, or after a failure."""

from __future__ import annotations

import pytest

from ingot.formats.hlo_text import print_module
from ingot.formats.stablehlo import contexts, parse_stablehlo
from ingot.formats.stablehlo.contexts import borrowed_context
from ingot.support.diagnostics import ParseError

pytest.importorskip("jaxlib", reason="it reads MLIR")

TEXT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    mine: list[object] = []
    monkeypatch.setattr(contexts, "_idle", mine)
    return mine


def lent() -> int:
    with borrowed_context(1) as context:
        return id(context)


def test_one_reader_after_the_other_has_the_same(idle: list[object]) -> None:
    first = print_module(parse_stablehlo(TEXT))
    (row,) = idle
    assert print_module(parse_stablehlo(TEXT)) == first
    assert idle == [row]


def test_two_readers_have_two(idle: list[object]) -> None:
    with borrowed_context(1) as one, borrowed_context(1) as other:
        assert one is not other
    assert len(idle) == 2


def test_none_is_used_again_after_a_failure(idle: list[object]) -> None:
    lent()
    with pytest.raises(ParseError):
        parse_stablehlo("nothing of the kind")
    assert idle == []


def test_none_is_used_for_much(idle: list[object]) -> None:
    with borrowed_context(1 << 21):
        pass
    assert idle == []
    assert [bool(idle) for _ in range(100) if lent()] == [True] * 99 + [False]


def test_two_wrong_modules_are_refused() -> None:
    """MLIR verifies them in this thread: others would wait for Python to say what is wrong."""
    wrong = "module { func.func @b() { return } func.func @b() { return } }\n"
    for _ in range(20):
        with pytest.raises(ParseError, match="INGOT0120"):
            parse_stablehlo(wrong * 2)
