# SPDX-License-Identifier: Apache-2.0
"""Sorts of short rows as networks: who is one, and that they are stable to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.kernel.sort.network import batcher, neighbours

LESS = "ROOT r = pred[] compare(a, b), direction=LT"
GREATER_TOTAL = "ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER"
PARTIAL = "ROOT r = pred[] compare(a, b), direction=LT, type=FLOAT"
ONE_ZERO = """z = f32[] constant(0)
  a0 = pred[] compare(a, z), direction=EQ
  b0 = pred[] compare(b, z), direction=EQ
  n = f32[] constant(nan)
  an = pred[] compare(a, a), direction=NE
  bn = pred[] compare(b, b), direction=NE
  a1 = f32[] select(a0, z, a)
  b1 = f32[] select(b0, z, b)
  a2 = f32[] select(an, n, a1)
  b2 = f32[] select(bn, n, b1)
  ROOT r = pred[] compare(a2, b2), direction=LT, type=TOTALORDER"""


def text(element: str, dims: tuple[int, ...], axis: int, before: str, second: str = "") -> str:
    """Return a program that sorts an array, with another one beside it if `second` is its type."""
    shape = f"[{','.join(map(str, dims))}]"
    types = [element, second] if second else [element]
    names = [f"p{number}" for number in range(len(types))]
    given = "\n  ".join(
        f"{name} = {type_}{shape} parameter({number})"
        for number, (name, type_) in enumerate(zip(names, types, strict=True))
    )
    results = ", ".join(f"{type_}{shape}" for type_ in types)
    rest = f"\n  c = {second}[] parameter(2)\n  d = {second}[] parameter(3)" if second else ""
    return f"""HloModule m

before {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1){rest}
  {before}
}}

ENTRY e {{
  {given}
  ROOT s = {f"({results})" if second else results} sort({", ".join(names)}),
    dimensions={{{axis}}}, is_stable=true, to_apply=before
}}"""


def values(element: str, dims: tuple[int, ...], *, with_nan: bool = True) -> np.ndarray:
    """Return numbers of which many are equal; among floats both zeros and two NaNs."""
    choose = np.random.default_rng(sum(dims))
    if element == "f32":
        # What is not comparable has no place in a partial order.
        some = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, -np.nan], np.float32)
        return some[choose.integers(0, len(some) - 2 * (not with_nan), dims)]
    return choose.integers(0, 5, dims).astype({"s32": np.int32, "u8": np.uint8}[element])


@pytest.mark.parametrize("before", [LESS, GREATER_TOTAL, PARTIAL, ONE_ZERO])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [2, 3, 7, 8])
def test_short_rows_of_floats_are_stable(length: int, axis: int, before: str) -> None:
    dims = (length, 37) if axis == 0 else (37, length)
    given = values("f32", dims, with_nan="TOTALORDER" in before)
    _check(text("f32", dims, axis, before), [given])


@pytest.mark.parametrize("element", ["s32", "u8"])
@pytest.mark.parametrize(("length", "axis"), [(5, 0), (9, 1), (25, 1), (32, 0)])
def test_short_rows_of_integers(element: str, length: int, axis: int) -> None:
    dims = (length, 70) if axis == 0 else (70, length)
    _check(text(element, dims, axis, LESS), [values(element, dims)])


@pytest.mark.parametrize("axis", [0, 1])
def test_positions_follow_their_keys(axis: int) -> None:
    dims = (6, 40) if axis == 0 else (40, 6)
    positions = np.indices(dims)[axis].astype(np.int32)
    _check(text("f32", dims, axis, ONE_ZERO, "s32"), [values("f32", dims), positions])


def test_keys_of_two_operands() -> None:
    before = """l = pred[] compare(a, b), direction=LT
  e = pred[] compare(a, b), direction=EQ
  m = pred[] compare(c, d), direction=GT
  t = pred[] and(e, m)
  ROOT r = pred[] or(l, t)"""
    given = [values("s32", (40, 5)), values("u8", (40, 5))]
    _check(text("s32", (40, 5), 1, before, "u8"), given)


def _check(program: str, arrays: list[np.ndarray]) -> None:
    module = parse_hlo(program)
    wanted = evaluate(module, arrays)
    executable = ingot.compile(module)
    assert executable.kernels[0].strategy == "sorting network"
    found = executable(*arrays)
    for one, other in zip(_arrays(found), _arrays(wanted), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def _arrays(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize(
    ("element", "dims", "axis", "strategy"),
    [
        ("u8", (32, 9), 0, "sorting network"),
        ("u8", (9, 25), 1, "sorting network"),
        ("u8", (9, 26), 1, "sort by key"),  # lanes would gather too far apart
        ("u8", (33, 9), 0, "sort by key"),
        ("f32", (16, 9), 0, "sorting network"),
    ],
)
def test_which_rows_are_short(
    element: str, dims: tuple[int, ...], axis: int, strategy: str
) -> None:
    before = LESS if element == "u8" else GREATER_TOTAL
    executable = ingot.compile(parse_hlo(text(element, dims, axis, before)))
    assert strategy in [kernel.strategy for kernel in executable.kernels]


@pytest.mark.parametrize("count", range(2, 9))
def test_networks_sort(count: int) -> None:
    for network in (neighbours(count), [p for p in batcher(8) if p[1] < count]):
        for bits in range(1 << count):
            row = [bits >> place & 1 for place in range(count)]
            for low, high in network:
                row[low], row[high] = min(row[low], row[high]), max(row[low], row[high])
            assert row == sorted(row)


def test_networks_go_through_the_kernel_passes_of_their_compilation() -> None:
    module = text("s32", (5, 3), 0, LESS)
    kept = PassContext(disabled=frozenset({"narrow-indices"}))
    ingot.compile(module, context=kept)
    names = [row.name for row in kept.timings if row.pipeline == "kernel"]
    assert names
    assert "narrow-indices" not in names
