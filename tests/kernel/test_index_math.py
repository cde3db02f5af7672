# SPDX-License-Identifier: Apache-2.0
"""Index arithmetic against NumPy: reshapes, divisions and strides of indices."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingot.analysis.common_factors import common_factors
from ingot.hlo.dim import Dim, evaluate, floordiv
from ingot.kernel.index_math import (
    coefficient,
    delinearize,
    divide,
    linearize,
    reshape_index,
)

DIMS = st.lists(st.integers(1, 6), max_size=4)
N = Dim.symbol("n")


def _axes(dims):
    names = [f"@{number}" for number in range(len(dims))]
    return [Dim.symbol(name) for name in names], dict(zip(names, dims, strict=True))


@st.composite
def reshapes(draw):
    """Draw two dimension lists of equal product."""
    factors = draw(st.lists(st.sampled_from([1, 2, 2, 3, 3, 5]), max_size=6))
    other = draw(st.permutations(factors))

    def grouped(items):
        groups = [1]
        for item in items:
            if draw(st.booleans()):
                groups.append(1)
            groups[-1] *= item
        return groups

    return grouped(factors), grouped(other)


@given(reshapes())
def test_reshape_is_numpys(pair):
    before, after = pair
    axes, extents = _axes(after)
    numbers = np.arange(math.prod(before)).reshape(before)
    index = reshape_index(axes, after, before, extents)
    for place in np.ndindex(*after):
        values = dict(zip(extents, place, strict=True))
        where = tuple(evaluate(item, values) for item in index)
        assert numbers[where] == numbers.reshape(after)[place]


@given(DIMS)
def test_linearize_and_back(dims):
    axes, extents = _axes(dims)
    one = [0 if size == 1 else axis for axis, size in zip(axes, dims, strict=True)]
    number = linearize(one, dims)
    for place in np.ndindex(*dims):
        values = dict(zip(extents, place, strict=True))
        assert evaluate(number, values) == (np.ravel_multi_index(place, dims) if dims else 0)
    again = delinearize(number, dims, extents)
    for found, axis in zip(again, one, strict=True):
        assert found == axis


@given(st.integers(1, 6), st.lists(st.integers(2, 6), min_size=1, max_size=4))
def test_the_indices_of_one_axis_are_put_together(rows, dims):
    row, axis = Dim.symbol("@m"), Dim.symbol("@k")
    indices = delinearize(axis, dims, {"@k": math.prod(dims)})
    assert linearize(indices, dims) == axis
    assert linearize((row, *indices), (rows, *dims)) == row * math.prod(dims) + axis


@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(0, 5), st.integers(0, 5), st.integers(0, 20)
)
def test_division_keeps_the_value(divisor, extent, outer, inner, offset):
    """value == quotient * divisor + rest, and the rest is below the divisor."""
    i, j = Dim.symbol("@i"), Dim.symbol("@j")
    value = i * divisor * outer + j * inner + offset
    quotient, rest = divide(value, divisor, {"@i": 4, "@j": extent})
    for place in np.ndindex(4, extent):
        values = {"@i": place[0], "@j": place[1]}
        whole = evaluate(value, values)
        assert evaluate(quotient, values) == whole // divisor
        assert evaluate(rest, values) == whole % divisor


def test_symbolic_sizes_divide_exactly():
    i, j = Dim.symbol("@i"), Dim.symbol("@j")
    assert divide(i * N + j, N, {"@i": 4, "@j": N}) == (i, j)
    assert divide(i * N * 3 + j * 3, 3, {"@i": 4, "@j": N}) == (i * N + j, 0)


def test_what_a_reshape_leaves_alone_keeps_its_index():
    i, j = Dim.symbol("@i"), Dim.symbol("@j")
    assert reshape_index((i, 0, j), (N, 1, 7), (N, 7), {"@i": N, "@j": 7}) == (i, j)
    assert common_factors((N, 6), (N, 2, 3)) == [((0, 1), (0, 1)), ((1, 2), (1, 3))]


def test_coefficients_of_indices():
    i, j = Dim.symbol("@i"), Dim.symbol("@j")
    assert coefficient(i * N + j * 2 + 5, "@i") == N
    assert coefficient(i * N + j * 2 + 5, "@j") == 2
    assert coefficient(j + 5, "@i") == 0
    assert coefficient(7, "@i") == 0
    assert coefficient(i * i, "@i") is None
    assert coefficient(floordiv(i + j, 3), "@i") is None


@given(st.integers(-400, 400), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_quotients_of_what_begins_before_0(shift, step, factor, divisor):
    """A part of a concatenation, reshaped: what is left over may be negative, the whole is not."""
    row, lane = Dim.symbol("@r"), Dim.symbol("@i")
    value = factor * divisor * row + step * lane + shift
    quotient, rest = divide(value, divisor, {"@r": 500, "@i": 7})
    for place in ({"@r": 450, "@i": at} for at in range(7)):
        whole = evaluate(value, place)
        assert (evaluate(quotient, place), evaluate(rest, place)) == divmod(whole, divisor)
