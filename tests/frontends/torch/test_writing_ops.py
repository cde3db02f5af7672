# SPDX-License-Identifier: Apache-2.0
"""Ops of libraries that write into their arguments: values, and which tensors are copied before."""

from __future__ import annotations

import pytest
import torch
from tests.frontends.torch.compare import assert_runs_same
from torch import Tensor

from ingot.frontends.torch.graphs import recorded_graphs

seen: list[int] = []
"""Addresses of the tensors that ops wrote."""


@torch.library.custom_op("ingot_tests::fill_row", mutates_args=("cache",))
def fill_row(cache: Tensor, row: Tensor, index: int) -> None:
    """Write a row of a cache."""
    seen.append(cache.data_ptr())
    cache[index] = row


@torch.library.custom_op("ingot_tests::swap_sums", mutates_args=("left", "right"))
def swap_sums(left: Tensor, right: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
    """Scale two tensors, return their sums."""
    left.mul_(factor)
    if right is None:
        return left.sum(), left.max()
    right.add_(left.sum())
    return left.sum(), right.sum()


@swap_sums.register_fake
def _(left, right, factor):
    return left.new_empty(()), left.new_empty(())


@torch.library.custom_op("ingot_tests::double_all", mutates_args=("parts",))
def double_all(parts: list[Tensor]) -> None:
    """Double tensors of a list."""
    for part in parts:
        part.mul_(2)


def whole(cache, x):
    fill_row(cache, x * 2, 1)
    return cache.sum(0)


def part(cache, x):
    fill_row(cache[1:], x * 2, 1)
    return x + 1


def strided(cache, x):
    fill_row(cache.t()[::2], x[:4] * 2, 1)
    return x + 1


def computed(cache, x):
    made = cache * 2
    fill_row(made, x, 0)
    return made + 1


def read_before(cache, x):
    before = cache.sum(0)
    fill_row(cache, x, 0)
    return before, cache.sum(0)


def read_after(cache, x):
    made = cache + 1
    again = made.clone()
    fill_row(again, x, 0)
    return made, again


def several(cache, x):
    made = x + 1
    found = swap_sums(cache, made, 3.0)
    one = swap_sums(x, None, 2.0)
    return made, *found, *one


def listed(cache, x):
    made = x + 1
    double_all([cache, made])
    return cache.sum(), made


FUNCTIONS = (whole, part, strided, computed, read_before, read_after, several, listed)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_and_written_arguments(function, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", fullgraph=True, dynamic=dynamic)
    for rows in (4, 4):
        assert_runs_same(function, compiled, torch.randn(rows, 6), torch.randn(6))


@pytest.mark.parametrize("function", [whole, part])
def test_an_argument_is_written_where_it_lies(function):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", fullgraph=True)
    cache, x = torch.zeros(4, 6), torch.ones(6)
    seen.clear()
    compiled(cache, x)
    assert len(seen) == 1
    assert cache.data_ptr() <= seen[0] < cache.data_ptr() + cache.nbytes
    assert cache.sum() == 12


def test_what_was_computed_for_the_op_is_not_copied():
    torch._dynamo.reset()
    with recorded_graphs() as graphs:
        got = torch.compile(computed, backend="ingot", fullgraph=True)(
            torch.ones(2, 3), torch.zeros(3)
        )
    assert torch.equal(got, torch.tensor([[1.0] * 3, [3.0] * 3]))
    assert graphs[0].source.count("empty_strided(") == 2


def test_an_argument_that_is_read_is_copied():
    torch._dynamo.reset()
    cache = torch.zeros(4, 6)
    seen.clear()
    torch.compile(read_before, backend="ingot", fullgraph=True)(cache, torch.ones(6))
    assert seen[0] != cache.data_ptr()
    assert cache[0].sum() == 6
