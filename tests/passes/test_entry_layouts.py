# SPDX-License-Identifier: Apache-2.0
"""Layouts that a host chose of parameters and results: the program computes the same."""

import itertools

import numpy as np
import pytest

from ingot.client.compile import compile
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.module import Alias
from ingot.passes.layout.custom_call_layouts import order_without_transpose, store_in_layouts
from ingot.semantics.call_layouts import physical_dims, row_major
from ingot.semantics.entry_layouts import layout_text, write_entry_layouts

TEXT = """
HloModule m
ENTRY main {
  a = f32[2,3,5] parameter(0)
  b = f32[2,3,5] parameter(1)
  ROOT c = (f32[2,3,5], f32[5,3,2], f32[]) tuple(s, t, z)
}
""".replace(
    "  ROOT",
    """  z = f32[] constant(3)
  s = f32[2,3,5] subtract(a, b)
  t = f32[5,3,2] transpose(a), dimensions={2,1,0}
  ROOT""",
)
A, B = np.random.default_rng(0).standard_normal((2, 2, 3, 5), np.float32)


def stored(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(physical_dims(range(array.ndim), order)))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_arrays_are_stored_in_layouts(order: tuple[int, ...]) -> None:
    module = parse_hlo(TEXT)
    text, plain = layout_text(order), layout_text(row_major(3))
    write_entry_layouts(module, [text, plain], [text, "auto", "{}"])
    layouts = store_in_layouts(module)
    assert layouts.parameters == (order, (2, 1, 0))
    assert layouts.results[0] == order
    given = [stored(A, order), B]
    for found in (evaluate(module, given), compile(module)(*given)):
        np.testing.assert_array_equal(found[0], stored(A - B, order))
        np.testing.assert_array_equal(found[1], stored(A.T, layouts.results[1]))
        assert found[2] == 3


def test_row_major_modules_are_left_alone() -> None:
    module = parse_hlo(TEXT)
    before = str(module)
    layouts = store_in_layouts(module)
    assert layouts.results == ((2, 1, 0), (2, 1, 0), ())
    assert str(module) == before


ORDERS = {
    "copy(a)": (1, 0),
    "transpose(a), dimensions={1,0}": (0, 1),
    "negate(t)": (0, 1),
    "transpose(ones), dimensions={1,0}": (0, 1),
    "negate(ones)": (1, 0),
    "add(t, ones)": (0, 1),
    "add(t, t)": (0, 1),
    "add(t, a)": (1, 0),
    "dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}": (1, 0),
}


@pytest.mark.parametrize("op", ORDERS)
def test_results_may_be_stored_without_a_transpose(op: str) -> None:
    text = f"""
HloModule m
ENTRY main {{
  a = f32[4,4] parameter(0)
  one = f32[] constant(1)
  ones = f32[4,4] broadcast(one), dimensions={{}}
  t = f32[4,4] transpose(a), dimensions={{1,0}}
  ROOT r = f32[4,4] {op}
}}
"""
    assert order_without_transpose(parse_hlo(text).entry.root) == ORDERS[op]


def test_an_alias_of_other_dimensions_is_dropped() -> None:
    text = "HloModule m\nENTRY main { a = f32[2,3] parameter(0)\n ROOT r = f32[2,3] negate(a) }"
    for results, aliases in (["{0,1}", 1], ["{1,0}", 0]):
        module = parse_hlo(text)
        module.aliases = (Alias((), 0),)
        write_entry_layouts(module, ["{0,1}"], [results])
        store_in_layouts(module)
        assert len(module.aliases) == aliases
