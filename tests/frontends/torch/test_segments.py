# SPDX-License-Identifier: Apache-2.0
"""`segment_reduce`: rows of segments folded, with gradients, beside PyTorch's kernel."""

import math

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch import Tensor

REDUCTIONS = ("sum", "mean", "max", "min", "prod")


def _data(*dims: int) -> Tensor:
    made = torch.randn(*dims, dtype=torch.float64)
    flat = made.view(-1)
    flat[3], flat[5], flat[7] = 0.0, flat[4], math.nan
    return made.requires_grad_()


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_STRICT", "1")


@pytest.mark.parametrize("initial", [None, 0.5])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_lengths(name: str, initial: float | None) -> None:
    def folded(x: Tensor, lengths: Tensor) -> Tensor:
        return torch.segment_reduce(x, name, lengths=lengths, initial=initial)

    # Where a segment is empty, its mean and extremes have no sum to compare gradients of.
    assert_same(folded, _data(9).detach(), torch.tensor([2, 0, 4, 3]))
    assert_same(folded, _data(9), torch.tensor([2, 1, 4, 2]), grad=True)
    assert_same(folded, _data(9, 2, 3), torch.tensor([2, 1, 4, 2]), grad=True)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_offsets(name: str) -> None:
    def folded(x: Tensor, offsets: Tensor) -> Tensor:
        return torch.segment_reduce(x, name, offsets=offsets, unsafe=True)

    assert_same(folded, _data(9, 2), torch.tensor([0, 2, 6, 9]), grad=True)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_lengths_of_each_batch(name: str) -> None:
    def folded(x: Tensor, lengths: Tensor) -> Tensor:
        return torch.segment_reduce(x, name, lengths=lengths, axis=1)

    lengths = torch.tensor([[2, 3, 1], [4, 1, 1]])
    assert_same(folded, _data(2, 6, 3), lengths, grad=True)


def test_one_program_serves_every_number_of_rows() -> None:
    def folded(x: Tensor, lengths: Tensor) -> Tensor:
        return torch.segment_reduce(x, "mean", lengths=lengths, unsafe=True)

    assert_same(folded, _data(9, 2), torch.tensor([2, 4, 3]), dynamic=True, grad=True)
