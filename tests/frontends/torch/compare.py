# SPDX-License-Identifier: Apache-2.0
"""Compiled functions beside PyTorch's eager ones: `assert_same(function, *args)`."""

from collections.abc import Callable
from typing import Any

import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map


def copied(args: Any) -> Any:
    """Return arguments with tensors of their own, which keep strides and `requires_grad`."""

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return tree_map(copy, args)


def assert_results(got: Any, want: Any, *, strides: bool = True, **tolerance: float) -> None:
    """Compare values, element types, sizes and strides; what is not a tensor exactly."""
    for one, other in zip(tree_leaves(got), tree_leaves(want), strict=True):
        if isinstance(other, torch.Tensor):
            assert_close(one, other, equal_nan=True, check_stride=strides, **tolerance)
        else:
            assert one == other
            assert type(one) is type(other)


def assert_same(
    function: Callable[..., Any],
    *args: Any,
    dynamic: bool | None = False,
    grad: bool = False,
    fresh: bool = True,
    **tolerance: float,
) -> None:
    """Compare a function compiled with eager's: results, written arguments, gradients, generator.

    Args:
        function: what is compiled, as one graph.
        args: its arguments; both runs get copies.
        dynamic: `torch.compile`'s.
        grad: compare gradients of the sum of all float results, too.
        fresh: forget what was compiled before.
        tolerance: `rtol` and `atol` of `torch.testing.assert_close`.
    """
    if fresh:
        torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", fullgraph=True, dynamic=dynamic)
    assert_runs_same(function, compiled, *args, grad=grad, **tolerance)


def assert_runs_same(
    function: Callable[..., Any],
    compiled: Callable[..., Any],
    *args: Any,
    grad: bool = False,
    **tolerance: float,
) -> None:
    """Compare one call of a compiled function with one of eager's."""
    eager_args, compiled_args = copied(args), copied(args)
    torch.manual_seed(3)
    want = function(*eager_args)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    got = compiled(*compiled_args)
    assert torch.equal(torch.get_rng_state(), state), "another number of random draws"
    assert_results(got, want, **tolerance)
    assert_results(compiled_args, eager_args, **tolerance)
    if grad:
        found = [_gradients(got, compiled_args), _gradients(want, eager_args)]
        assert found[1]
        assert_results(*found, strides=False, **tolerance)  # eager's may repeat one element


def _gradients(results: Any, args: Any) -> list[torch.Tensor]:
    leaves = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor) and x.requires_grad]
    total = sum(
        (x.abs() if x.is_complex() else x).sum()
        for x in tree_leaves(results)
        if isinstance(x, torch.Tensor) and x.requires_grad
    )
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def made(dtype: torch.dtype, *dims: int) -> torch.Tensor:
    """Return random numbers of a type, the same in each call."""
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(dims, generator=generator) * 3
    return values > 0 if dtype is torch.bool else values.to(dtype)
