# SPDX-License-Identifier: Apache-2.0
"""Long chains of ops: the order in which they are emitted, and what LLVM's quick way makes of them.

A chain's kernel is compiled without LLVM's optimizing (`LoopSchedule.chain`), whatever its types.
"""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.cpu import kernels
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.dtype import dtype
from ingot.llvm.target import TargetSpec

STEPS = 20
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 1.0, -1.5, 0.75, 2.0)


def _chain(element: str, size: int) -> str:
    """Return a polynomial of which each coefficient is one of two, by a mask."""
    array = f"{element}[{size}]"
    lines = [
        f"x = {array} parameter(0)",
        f"zero = {element}[] constant(0)",
        f"zeros = {array} broadcast(zero), dimensions={{}}",
        f"mask = pred[{size}] compare(x, zeros), direction=LT",
        f"v0 = {array} add(x, x)",
    ]
    for n in range(STEPS):
        for which, number in (("a", 1 + n), ("b", 3 + 2 * n)):
            lines += [
                f"{which}{n} = {element}[] constant({number})",
                f"{which}s{n} = {array} broadcast({which}{n}), dimensions={{}}",
            ]
        lines += [
            f"c{n} = {array} select(mask, as{n}, bs{n})",
            f"m{n} = {array} multiply(x, v{n})",
            f"v{n + 1} = {array} add(c{n}, m{n})",
        ]
    root = f"ROOT r = {array} negate(v{STEPS})"
    return "HloModule m ENTRY e { " + " ".join(lines) + f" {root} }}"


@pytest.mark.parametrize("size", [1, 37, 4096])
@pytest.mark.parametrize("element", ["f64", "f32", "bf16", "f16", "s32", "u8", "s64"])
def test_chains_of_every_type_are_what_the_evaluator_says(element: str, size: int) -> None:
    module = parse(_chain(element, size))
    of = dtype(element)
    numbers = SPECIAL if of.is_float else (0, 1, -1, 2, 7, 100)
    x = np.resize(np.array(numbers), size).astype(of.numpy)
    want = np.asarray(evaluate(module, [x])).astype(np.float64)
    got = np.asarray(ingot.compile(module)(x)).astype(np.float64)
    assert got.shape == want.shape
    bits = {"f64": 44, "f32": 16, "bf16": 3, "f16": 5}.get(element)
    np.testing.assert_allclose(got, want, rtol=2.0**-bits if bits else 0)


def test_an_empty_chain() -> None:
    assert np.asarray(ingot.compile(parse(_chain("f32", 0)))(np.zeros(0, np.float32))).size == 0


def test_what_takes_little_is_emitted_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All coefficients ahead of the chain would not fit the registers."""
    texts: list[str] = []
    compile_object = kernels.compile_object

    def keep(text: str, *args: object, **options: object) -> object:
        texts.append(text)
        return compile_object(text, *args, **options)

    monkeypatch.setattr(kernels, "compile_object", keep)
    # A size of its own: kernels are kept by name.
    ingot.compile(parse(_chain("f32", 4321)), target=TargetSpec.at_level("avx512"))
    lines = [line for text in texts for line in text.splitlines() if "= " in line]
    words = ["sum" if "@llvm.fmuladd" in line else line.split()[2] for line in lines]
    first_sum = words.index("sum")
    assert 0 < words[:first_sum].count("select") < STEPS // 2
