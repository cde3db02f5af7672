# SPDX-License-Identifier: Apache-2.0
"""Attention as one kernel: what it computes, against the evaluator, and when there is none.

Sizes around those of blocks of queries and keys and of lanes, every kind of mask, every element
type, rows without a score, scores that would overflow, NaN and infinity anywhere.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.attention_programs import HEADS, MASKS, attention, operands

import ingot
from ingot.evaluator import evaluate
from ingot.evaluator.registry import Array
from ingot.formats.hlo_text import parse
from ingot.llvm.target import TargetSpec

SIZES = (
    (32, 96, 2, 3), (33, 97, 7, 64), (64, 140, 64, 64), (65, 141, 33, 31), (127, 331, 16, 40),
    (130, 200, 80, 96), (192, 101, 8, 2),
)  # fmt: skip
"""Queries, keys, depth, width."""

CLOSE = {"f64": 1e-13, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}


def _strategies(executable: ingot.Executable) -> list[str]:
    return [kernel.strategy for kernel in executable.kernels]


def _check(text: str, arguments: list[Array], element: str, target: str | None = None) -> None:
    """Compile; there must be an attention kernel, and it must give what the evaluator gives."""
    level = None if target is None else TargetSpec.at_level(target)
    executable = ingot.compile(text, target=level)
    assert "attention" in _strategies(executable)
    found, wanted = executable(*arguments), evaluate(parse(text), arguments)
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for one, other in pairs:
        ours, theirs = np.asarray(one, np.float64), np.asarray(other, np.float64)
        np.testing.assert_allclose(ours, theirs, rtol=CLOSE[element], atol=CLOSE[element])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_mask_over_sizes(sizes: tuple[int, int, int, int], mask: str) -> None:
    _check(attention(sizes, "f32", mask), operands(sizes, "f32", mask), "f32")


@pytest.mark.parametrize("mask", ["none", "causal", "flags", "bias"])
@pytest.mark.parametrize("element", ["f64", "bf16", "f16"])
def test_every_type(element: str, mask: str) -> None:
    sizes = (70, 150, 24, 40)
    for target in (None, "avx512"):
        _check(attention(sizes, element, mask), operands(sizes, element, mask), element, target)


@pytest.mark.parametrize("target", ["avx2", "plain"])
@pytest.mark.parametrize("mask", ["window", "flags"])
def test_other_targets(target: str, mask: str) -> None:
    sizes = (65, 131, 17, 21)
    _check(attention(sizes, "f32", mask), operands(sizes, "f32", mask), "f32", target)


@pytest.mark.parametrize("masked", ["-inf", "-2.38e38", "-1e9", "-60", "5"])
@pytest.mark.parametrize("mask", ["causal", "window", "never"])
def test_keys_outside_of_the_mask_count_where_they_have_a_weight(mask: str, masked: str) -> None:
    sizes = (100, 300, 16, 16)
    text = attention(sizes, "f32", mask, masked=masked)
    given = operands(sizes, "f32", mask)
    _check(text, given, "f32")
    # Scores far below what takes their place; integers, so that they are exact.
    low = [-np.round(np.abs(given[0]) * 100), np.round(np.abs(given[1]) * 100), given[2]]
    _check(text, low, "f32")


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("mask", ["none", "causal", "window", "flags"])
def test_special_values_reach_the_rows_that_they_reach(
    mask: str, which: int, special: float
) -> None:
    sizes = (70, 210, 20, 20)
    given = operands(sizes, "f32", mask)
    # Behind the last key that a row sees, in the middle, and in the first row or key.
    for row in (0, 31, sizes[which > 0] - 1):
        changed = [array.copy() for array in given]
        changed[which][0, row, 3] = special
        _check(attention(sizes, "f32", mask), changed, "f32")


def test_large_scores_do_not_overflow() -> None:
    sizes = (64, 300, 32, 32)
    queries, keys, values = operands(sizes, "f32", "none")
    large = [np.round(queries * 4) * 1000, np.round(keys * 4) * 1000, values]
    found = np.asarray(ingot.compile(attention(sizes))(*large))
    assert np.isfinite(found).all()
    _check(attention(sizes), large, "f32")


@pytest.mark.parametrize("mask", ["none", "flags", "causal"])
def test_values_of_rows_are_further_results(mask: str) -> None:
    sizes = (70, 130, 16, 16)
    text = attention(sizes, "f32", mask, further=", greatest, total")
    given = operands(sizes, "f32", mask)
    _check(text, given, "f32")
    for special in (np.nan, np.inf):
        given[0][1, 5] = special
        _check(text, given, "f32")


def test_scores_that_are_read_elsewhere_stay_in_memory() -> None:
    sizes = (64, 128, 16, 16)
    text = attention(sizes).replace("ROOT result", "result").replace(
        "rhs_contracting_dims={1}\n", "rhs_contracting_dims={1}\n"
        f"  ROOT all = (f32[{HEADS},64,16], f32[{HEADS},64,128]) tuple(result, weights)\n",
    )  # fmt: skip
    executable = ingot.compile(text)
    given = operands(sizes, "f32", "none")
    assert "attention" not in _strategies(executable)
    for one, other in zip(executable(*given), evaluate(parse(text), given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


SYMMETRIC = """  across = f32[2,96,96] transpose(products), dimensions={0,2,1}
  scaled = f32[2,96,96] add(products, across)
"""
CENTRED = """  whole = f32[2] reduce(products, zero), dimensions={1,2}, to_apply=sum
  mean = f32[2,96,96] broadcast(whole), dimensions={0}
  scaled = f32[2,96,96] subtract(products, mean)
"""
BY_KEY = """  most = f32[2,96] reduce(products, lowest), dimensions={2}, to_apply=larger
  mosts = f32[2,96,96] broadcast(most), dimensions={0,2}
  scaled = f32[2,96,96] subtract(products, mosts)
"""


@pytest.mark.parametrize("made", [SYMMETRIC, CENTRED, BY_KEY])
def test_scores_that_depend_on_other_scores_are_in_memory(made: str) -> None:
    sizes = (96, 96, 16, 16)
    text = attention(sizes)
    scaled = "  scaled = f32[2,96,96] multiply(products, scales)\n"
    constants = "  lowest = f32[] constant(-inf)  zero = f32[] constant(0)\n"
    assert scaled in text
    assert constants in text
    text = text.replace(constants, "").replace(scaled, constants + made)
    executable = ingot.compile(text)
    given = operands(sizes, "f32", "none")
    assert "attention" not in _strategies(executable)
    wanted = evaluate(parse(text), given)
    np.testing.assert_allclose(executable(*given), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "sizes", [(31, 400, 16, 16), (400, 95, 16, 16), (64, 128, 300, 16)], ids=str
)
def test_sizes_that_do_not_pay(sizes: tuple[int, int, int, int]) -> None:
    assert "attention" not in _strategies(ingot.compile(attention(sizes)))


@pytest.mark.skipif(not TargetSpec.host().has_bf16_tiles, reason="the CPU has no AMX")
@pytest.mark.parametrize("mask", ["none", "window", "flags"])
@pytest.mark.parametrize(
    "sizes",
    [(32, 96, 3, 2), (33, 97, 31, 33), (128, 161, 64, 8), (61, 300, 130, 70), (449, 97, 16, 33)],
    ids=str,
)
def test_products_of_tiles(sizes: tuple[int, int, int, int], mask: str) -> None:
    """Blocks of keys, depths and widths that fill no tile; rows that see no key, NaN, infinity."""
    text, given = attention(sizes, "bf16", mask), operands(sizes, "bf16", mask)
    _check(text, given, "bf16")
    for number, special in enumerate((np.nan, np.inf, -np.inf)):
        given[number][1, sizes[number > 0] - 1, 0] = special
    _check(text, given, "bf16")


def test_exact_programs_have_no_attention_kernel() -> None:
    sizes = (64, 128, 16, 16)
    text, given = attention(sizes), operands(sizes, "f32", "none")
    executable = ingot.compile(text, fp="exact")
    assert "attention" not in _strategies(executable)
    wanted = evaluate(parse(text), given)
    np.testing.assert_allclose(executable(*given), wanted, rtol=1e-5, atol=1e-5)


def test_values_may_lie_across() -> None:
    """Values with keys last, weights as the right operand, and a result that is moved."""
    sizes = (66, 140, 16, 24)
    text = attention(sizes)
    text = text.replace(f"values = f32[{HEADS},140,24]", f"values = f32[{HEADS},24,140]")
    start = text.index("  ROOT result")
    text = (
        text[:start]
        + f"""  result = f32[{HEADS},24,66] dot(values, weights), \
lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  moved = f32[66,{HEADS},24] transpose(result), dimensions={{2,0,1}}
  ROOT half = bf16[66,{HEADS},24] convert(moved)
}}
"""
    )
    queries, keys, values = operands(sizes, "f32", "none")
    _check(text, [queries, keys, values.swapaxes(1, 2).copy()], "bf16")
    assert len(ingot.compile(text).kernels) == 1


def test_threads_change_no_bit() -> None:
    sizes = (300, 500, 32, 32)
    text, given = attention(sizes, "f32", "causal"), operands(sizes, "f32", "causal")
    results: list[Array] = []
    for threads in (1, 2, 5):
        results.append(np.asarray(ingot.compile(text, threads=threads)(*given)))
    for found in results[1:]:
        np.testing.assert_array_equal(results[0].view(np.int32), found.view(np.int32))


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_the_error_is_no_larger_than_with_three_kernels(
    element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = (96, 700, 64, 64)
    text, given = attention(sizes, element), operands(sizes, element, "none", seed=3)
    wide = [array.astype(np.longdouble) for array in given]
    scores = np.einsum("hmk,hnk->hmn", wide[0], wide[1]) * np.longdouble(0.375)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    true = np.einsum("hmn,hne->hme", powers / powers.sum(-1, keepdims=True), wide[2])
    one = np.asarray(ingot.compile(text)(*given))
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=attention-fusion")
    executable = ingot.compile(text)
    assert "attention" not in _strategies(executable)
    three = np.asarray(executable(*given))
    errors = [float(np.sqrt(np.mean((found - true) ** 2))) for found in (one, three)]
    assert errors[0] <= 1.1 * errors[1]
