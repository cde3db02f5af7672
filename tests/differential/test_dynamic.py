# SPDX-License-Identifier: Apache-2.0
"""Dynamic dimensions: evaluator, Ingot's CPU and real XLA agree, whatever lies behind a size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.differential.case import seed_of, special_values
from tests.differential.dynamic_cases import PROGRAMS, Program
from tests.support.real_xla import run_hlo_text

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse

Array = np.ndarray[Any, Any]
OFTEN = ("reverse", "reduce of two", "dot folds", "sort", "while it grows", "conditional")
"""Those that run with the fast tests."""


def inputs_of(program: Program, size: int) -> list[Array]:
    """Return whole numbers, with NaN behind `size`, which nothing may see."""
    x = seed_of(program.name).integers(1, 9, program.dims).astype(np.float32)
    if program.behind is not None:
        x[(slice(None),) * program.behind + (slice(size, None),)] = np.nan
    return [x, np.int32(size)]


def leaves_of(value: Any) -> list[Array]:
    return [np.asarray(leaf) for leaf in (value if isinstance(value, tuple) else (value,))]


def check_leaves(got: list[Array], want: list[Array], what: str) -> None:
    assert [leaf.shape for leaf in got] == [leaf.shape for leaf in want], what
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6, err_msg=what)


def _cases(often: bool) -> list[Any]:
    return [
        pytest.param(p, id=p.name, marks=() if often and p.name in OFTEN else pytest.mark.slow)
        for p in PROGRAMS
    ]


@pytest.mark.parametrize("program", _cases(often=True))
def test_the_cpu_gives_what_the_evaluator_gives(program: Program) -> None:
    module = parse(program.text())
    executable = ingot.compile(module)
    for size in program.sizes:
        inputs = inputs_of(program, size)
        want = leaves_of(evaluate(module, inputs))
        assert not any(np.isnan(leaf.astype(np.float64)).any() for leaf in want), "NaN was seen"
        check_leaves(leaves_of(executable(*inputs)), want, f"{program.name}, size {size}")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(p, id=p.name, marks=() if p.name in OFTEN else pytest.mark.slow)
        for p in PROGRAMS
        # Batch norms are expanded before sizes are looked at: each of their ops leaves something.
        if p.is_bounded and not p.name.startswith("batch-norm")
    ],
)
def test_what_lies_behind_a_size_is_the_same(program: Program) -> None:
    module = parse(program.whole_text())
    executable = ingot.compile(module)
    for size in program.sizes:
        x = seed_of(program.name).integers(1, 9, program.dims).astype(np.float32)
        want = leaves_of(evaluate(module, [x, np.int32(size)]))
        check_leaves(leaves_of(executable(x, np.int32(size))), want, f"{program.name}, size {size}")


@pytest.mark.slow
@pytest.mark.parametrize("element", ["f32", "bf16", "f8e4m3fn", "s64", "u8", "pred", "c64"])
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.moves], ids=lambda p: p.name)
def test_special_values_are_moved(program: Program, element: str) -> None:
    module = parse(program.text(element))
    executable = ingot.compile(module)
    for size in program.sizes:
        x = np.resize(special_values(element), program.dims)
        want = leaves_of(evaluate(module, [x, np.int32(size)]))
        for mine, other in zip(leaves_of(executable(x, np.int32(size))), want, strict=True):
            assert mine.tobytes() == other.tobytes(), f"{program.name}, size {size}"


@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in PROGRAMS if not p.differs], ids=lambda p: p.name)
def test_real_xla_gives_what_the_evaluator_gives(program: Program) -> None:
    module = parse(program.text())
    for size in program.sizes:
        inputs = inputs_of(program, size)
        want = leaves_of(evaluate(module, inputs))
        data, *sizes = run_hlo_text(program.text(), inputs)
        # XLA puts the elements that there are at the start of a buffer of the bound's size.
        dims = [int(number) for number in sizes]
        got = data.reshape(-1)[: int(np.prod(dims))].reshape(dims)
        check_leaves([got, *sizes], want, f"{program.name}, size {size}")
