# SPDX-License-Identifier: Apache-2.0
"""`_grouped_mm`: products of the groups of a mixture of experts beside PyTorch's kernel."""

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch import Tensor

ENDS = ([16, 16, 40, 64], [0, 0, 64, 64], [1, 2, 3, 64])
"""Where groups end: some have no rows."""


def _random(*dims: int) -> Tensor:
    return (torch.randn(*dims) / 4).to(torch.bfloat16)


def _grouped(x: Tensor, y: Tensor, ends: Tensor | None = None) -> Tensor:
    return torch._grouped_mm(x, y, offs=ends)


@pytest.mark.parametrize("ends", ENDS)
def test_rows_in_groups(ends: list[int]) -> None:
    x, y = _random(64, 32).requires_grad_(), _random(4, 32, 48).requires_grad_()

    def bent(x: Tensor, y: Tensor, ends: Tensor) -> Tensor:
        # PyTorch refuses the gradient of a plain sum, whose strides are 0.
        return _grouped(x, y, ends).sin()

    assert_same(bent, x, y, torch.tensor(ends, dtype=torch.int32), grad=True)
    turned = _random(4, 48, 32).transpose(1, 2)
    assert_same(_grouped, x.detach(), turned, torch.tensor(ends, dtype=torch.int32))


@pytest.mark.parametrize("ends", ENDS)
def test_columns_and_factors_in_groups(ends: list[int]) -> None:
    given = torch.tensor(ends, dtype=torch.int32)
    assert_same(_grouped, _random(4, 48, 32), _random(64, 32).t(), given)
    assert_same(_grouped, _random(64, 32).t(), _random(64, 48), given)


def test_a_batch_without_groups() -> None:
    assert_same(_grouped, _random(3, 8, 32), _random(3, 32, 16))


def test_one_program_serves_every_number_of_rows() -> None:
    compiled = torch.compile(_grouped, backend="ingot", fullgraph=True)
    y = _random(4, 32, 48)
    torch._dynamo.reset()
    for rows in (64, 16, 200):
        x, ends = _random(rows, 32), torch.tensor([3, 8, 8, rows], dtype=torch.int32)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x, y, ends), _grouped(x, y, ends))


def test_a_mixture_of_experts() -> None:
    """Rows are sorted by expert, multiplied, and go back to their tokens with their weights."""

    def layer(x: Tensor, scores: Tensor, up: Tensor, down: Tensor) -> Tensor:
        weights, experts = scores.softmax(1).topk(2)
        order = experts.flatten().argsort(stable=True)
        counts = torch.nn.functional.one_hot(experts.flatten(), 4).sum(0)
        ends = counts.cumsum(0).to(torch.int32)
        rows = x[order // 2]
        hidden = torch.nn.functional.silu(torch._grouped_mm(rows, up, offs=ends))
        made = torch._grouped_mm(hidden, down, offs=ends)
        made = made * weights.flatten()[order].to(made.dtype)[:, None]
        return torch.zeros_like(x).index_add(0, order // 2, made)

    x, scores = _random(40, 32).requires_grad_(), torch.randn(40, 4)
    up, down = _random(4, 32, 64).requires_grad_(), _random(4, 64, 32).requires_grad_()
    assert_same(layer, x, scores, up, down, grad=True, rtol=2e-2, atol=2e-2)
