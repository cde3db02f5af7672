# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes obey the integers' arithmetic: every expression, at every value of its symbols."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.hlo import dim
from ingot.hlo.dim import Dim, evaluate

_LEAVES = st.one_of(st.integers(0, 9), st.sampled_from("nmk").map(Dim.symbol))
_SIZES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 6)).map(lambda pair: dim.floordiv(*pair)),
        st.tuples(inner, st.integers(1, 6)).map(lambda pair: dim.mod(*pair)),
        st.tuples(inner, inner).map(lambda pair: dim.maximum(*pair)),
    ),
    max_leaves=6,
)
_VALUES = st.fixed_dictionaries({name: st.integers(0, 12) for name in "nmk"})


@given(_SIZES, _SIZES, _VALUES)
def test_ring_operations(left: int | Dim, right: int | Dim, values: dict[str, int]) -> None:
    a, b = evaluate(left, values), evaluate(right, values)
    assert evaluate(left + right, values) == a + b
    assert evaluate(left - right, values) == a - b
    assert evaluate(left * right, values) == a * b


@given(_SIZES, st.integers(1, 9), _VALUES)
def test_division_and_remainder(size: int | Dim, by: int, values: dict[str, int]) -> None:
    number = evaluate(size, values)
    assert evaluate(dim.floordiv(size, by), values) == number // by
    assert evaluate(dim.mod(size, by), values) == number % by


def test_a_size_rounded_down_is_not_larger() -> None:
    n = Dim.symbol("n")
    rounded = dim.floordiv(n, 4) * 4
    assert dim.minimum(rounded, n) is rounded
    assert dim.maximum(n, rounded) is n
    assert dim.minimum(rounded, n + 3) is rounded
    assert dim.minimum(dim.floordiv(n, 4) * 5, n) not in (n, dim.floordiv(n, 4) * 5)


@given(_SIZES, _SIZES, _VALUES)
def test_minimum_and_maximum(left: int | Dim, right: int | Dim, values: dict[str, int]) -> None:
    a, b = evaluate(left, values), evaluate(right, values)
    assert evaluate(dim.minimum(left, right), values) == min(a, b)
    assert evaluate(dim.maximum(left, right), values) == max(a, b)


@given(_SIZES, _SIZES, _SIZES)
def test_normal_form_decides_the_ring_laws(a: int | Dim, b: int | Dim, c: int | Dim) -> None:
    assert (a + b) + c == a + (b + c)
    assert a * (b + c) == a * b + a * c
    assert a * b == b * a
    assert a - a == 0


@given(_SIZES, _SIZES)
def test_equal_expressions_are_one_object(a: int | Dim, b: int | Dim) -> None:
    total, other = a + b, b + a
    assert total is other or (isinstance(total, int) and total == other)


@given(_SIZES, _SIZES)
def test_exact_quotient_undoes_a_product(a: int | Dim, b: int | Dim) -> None:
    if isinstance(b, Dim) and len(b.terms) == 1:
        assert dim.exact_quotient(a * b, b) == a


@given(_SIZES, _SIZES, _VALUES)
def test_substitution(size: int | Dim, other: int | Dim, values: dict[str, int]) -> None:
    found = dim.substitute(size, {"n": other})
    assert evaluate(found, values) == evaluate(size, {**values, "n": evaluate(other, values)})


@given(_SIZES, st.integers(1, 8), _VALUES)
def test_known_multiples_are_multiples(
    size: int | Dim, factor: int, values: dict[str, int]
) -> None:
    if dim.known_multiple_of(size, factor):
        assert evaluate(size, values) % factor == 0


@given(_SIZES)
def test_pickling_keeps_identity(size: int | Dim) -> None:
    again = pickle.loads(pickle.dumps(size))
    assert again is size or again == size


def test_a_size_is_its_own_maximum_with_zero() -> None:
    n, m = Dim.symbol("n"), Dim.symbol("m")
    for size in (n, 2 * n * m + 3, dim.floordiv(n + 1, 2), dim.mod(n, 3)):
        assert dim.maximum(size, 0) is size
    assert str(dim.maximum(n - 1, 0)) == "max(0,n-1)"


def test_a_maximum_is_one_of_two_sizes_where_that_is_plain() -> None:
    n, m = Dim.symbol("n"), Dim.symbol("m")
    assert dim.maximum(n - 1, n) is n
    larger = dim.maximum(n, m)
    assert dim.maximum(larger, n) is larger
    assert dim.maximum(m - 2, dim.maximum(5, larger)) is dim.maximum(5, larger)


def test_symbols_are_found_inside_functions() -> None:
    n, m = Dim.symbol("n"), Dim.symbol("m")
    assert dim.symbols_of((dim.floordiv(n * m + 1, 3), 4)) == {"n", "m"}


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (Dim.symbol("n") * 2 + 1, "2*n+1"),
        (Dim.symbol("n") * Dim.symbol("m"), "m*n"),
        (1 - Dim.symbol("n"), "-n+1"),
        (dim.floordiv(Dim.symbol("n") + 1, 2), "floordiv(n+1,2)"),
        (dim.floordiv(Dim.symbol("n") * 6, 3), "2*n"),
    ],
)
def test_text(size: Dim, text: str) -> None:
    assert str(size) == text


def test_a_number_in_a_canonical_quotient_is_less_than_the_divisor():
    n = Dim.symbol("n")
    assert dim.canonical_floordiv(n - 2, 2) + 1 is dim.floordiv(n, 2)
    assert dim.canonical_floordiv(n + 9, 4) is dim.floordiv(n + 1, 4) + 2
    assert dim.canonical_floordiv(7, 2) == 3
    nested = dim.canonical_floordiv(dim.floordiv(n + 3, 4) + 1, 2)
    assert nested is dim.floordiv(n + 7, 8)
    for size in range(-9, 30):
        assert evaluate(nested, {"n": size}) == ((size + 3) // 4 + 1) // 2
    for size in range(20):
        assert evaluate(dim.canonical_floordiv(n - 5, 3), {"n": size}) == (size - 5) // 3


def test_what_divides_leaves_a_canonical_quotient():
    n, m = Dim.symbol("n"), Dim.symbol("m")
    assert dim.canonical_floordiv(2 * n + 1, 2) is n
    assert dim.canonical_floordiv(2 * n - 1, 2) == n - 1
    assert dim.canonical_floordiv(4 * n + 3 * m + 9, 2) == dim.floordiv(3 * m + 1, 2) + 2 * n + 4
    inner = dim.canonical_floordiv(3 * n + dim.floordiv(m, 2) + 5, 3)
    assert inner == dim.floordiv(m + 4, 6) + n + 1
    for size in range(-9, 9):
        for other in range(-9, 9):
            values = {"n": size, "m": other}
            assert evaluate(inner, values) == (3 * size + other // 2 + 5) // 3


def test_a_quotient_of_a_quotient_is_one_quotient():
    n = Dim.symbol("n")
    twice = dim.floordiv(dim.floordiv(n - 1, 4), 2)
    assert twice is dim.floordiv(n - 1, 8)
    assert dim.floordiv(dim.floordiv(n, 4) + 1, 2) is not dim.floordiv(n, 8)
    assert dim.floordiv(2 * dim.floordiv(n, 4), 3) is not dim.floordiv(n, 12)
    for size in range(40):
        assert evaluate(twice, {"n": size}) == (size - 1) // 4 // 2
