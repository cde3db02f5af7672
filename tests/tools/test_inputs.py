# SPDX-License-Identifier: Apache-2.0
"""Random inputs fit what they are used for; comparisons find what differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.formats.hlo_text import parse
from ingot.tools.passes import make, registry, split_list
from ingot.tools.programs.comparing import Bounds, compare
from ingot.tools.programs.inputs import random_inputs
from ingot.tools.programs.literals import literal_text, read_literal

BODIES = {
    "gather": """
  x = f32[5,100] parameter(0)
  i = s32[1000] parameter(1)
  ROOT r = f32[1000,100] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,100}""",  # noqa: E501
    "dynamic-slice": """
  x = f32[9] parameter(0)
  i = s32[] parameter(1)
  j = s32[] copy(i)
  ROOT r = f32[6] dynamic-slice(x, j), dynamic_slice_sizes={6}""",
}


def _inputs(body: str, seed: int = 1) -> list[Any]:
    return random_inputs(parse(f"HloModule m\nENTRY e {{{body}\n}}\n"), seed)


@pytest.mark.parametrize(("name", "most"), [("gather", 4), ("dynamic-slice", 3)])
def test_indices_are_in_bounds(name: str, most: int) -> None:
    found = [_inputs(BODIES[name], seed)[1] for seed in range(20)]
    assert min(index.min() for index in found) == 0
    assert max(index.max() for index in found) == most


def test_keys_of_a_sort_are_distinct() -> None:
    text = """HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[50] parameter(0) ROOT s = f32[50] sort(x), dimensions={0}, to_apply=less }
"""
    (keys,) = random_inputs(parse(text), 3)
    assert len(set(np.asarray(keys).tolist())) == 50


def test_initial_values_are_neutral() -> None:
    text = """HloModule m
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
ENTRY e {
  x = f32[50] parameter(0)
  z = f32[] parameter(1)
  ROOT s = f32[] reduce(x, z), dimensions={0}, to_apply=most
}
"""
    assert random_inputs(parse(text), 3)[1] == -np.inf


def test_equal_seeds_give_equal_inputs() -> None:
    body = BODIES["gather"]
    for one, other in zip(_inputs(body, 7), _inputs(body, 7), strict=True):
        np.testing.assert_array_equal(one, other)


def test_comparison_takes_either_bound() -> None:
    want = np.float32([1000, 1e-6, np.nan, 5])
    got = np.float32([1000.5, 2e-6, np.nan, 6])
    found = compare(0, got, want, Bounds(1e-3, 1e-3))
    assert found.mismatches == 1
    assert [element.index for element in found.first] == [(3,)]
    assert compare(0, want[:2], want, Bounds(1, 1)).problem == "the reference gives f32[4]"
    assert not compare(0, np.int32([1]), np.int32([2]), Bounds(9, 9)).agrees


def test_literals_are_read_as_they_are_written() -> None:
    for value in (np.float32([[1, np.inf]]), np.int8(-3), np.array([True, False])):
        again = read_literal(literal_text(value))
        np.testing.assert_array_equal(again, value)
        assert again.dtype == value.dtype


def test_passes_have_a_line_and_options() -> None:
    assert all(found.__doc__ for found in registry().values())
    assert split_list("a,b{x=1,y=2},c") == ["a", "b{x=1,y=2}", "c"]
    assert getattr(make("constant-folding{element_limit=3}"), "element_limit") == 3  # noqa: B009
