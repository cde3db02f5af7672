# SPDX-License-Identifier: Apache-2.0
"""Products of the groups of a mixture of experts beside PyTorch's kernels.

`_grouped_mm` is PyTorch's op, `grouped_mm_fallback` that of the package `transformers`, which is
registered here as that package does it.
"""

import itertools
import re
from collections.abc import Iterator

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch import Tensor

from ingot.frontends.torch.graphs import recorded_graphs

ENDS = ([16, 16, 40, 64], [0, 0, 64, 64], [1, 2, 3, 64])
"""Where groups end: some have no rows."""


def _groups(ends: Tensor) -> Iterator[tuple[int, slice]]:
    limits = [0, *ends.tolist()]
    for number, (start, end) in enumerate(itertools.pairwise(limits)):
        yield number, slice(start, end)


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def experts(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    made = input.new_zeros(input.shape[0], weight.shape[2])
    for number, rows in _groups(offs):
        made[rows] = input[rows] @ weight[number]
    return made


@torch.library.custom_op("transformers::grouped_mm_fallback_backward", mutates_args=())
def experts_backward(
    input: Tensor, weight: Tensor, offs: Tensor, grad_output: Tensor
) -> tuple[Tensor, Tensor]:
    of_input, of_weight = torch.zeros_like(input), torch.zeros_like(weight)
    for number, rows in _groups(offs):
        of_input[rows] = grad_output[rows] @ weight[number].T
        of_weight[number] = input[rows].T @ grad_output[rows]
    return of_input, of_weight


@experts.register_fake
def _(input, weight, offs):
    return input.new_empty(input.shape[0], weight.shape[2])


@experts_backward.register_fake
def _(input, weight, offs, grad_output):
    return torch.empty_like(input), torch.empty_like(weight)


experts.register_autograd(
    lambda ctx, gradient: (*experts_backward(*ctx.saved_tensors, gradient), None),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


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


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op that is left to PyTorch is an error."""
    monkeypatch.setenv("INGOT_STRICT", "1")


def _bent(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return experts(x, weight, ends).sin()


LINEAR = ("a linear layer's", "rows by columns")


@pytest.mark.parametrize("order", LINEAR)
@pytest.mark.parametrize("rows", [0, 1, 7, 301])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_experts_of_transformers(kind: torch.dtype, rows: int, order: str) -> None:
    """Also of no rows, of no rows in some groups, and of rows behind the last group."""
    x = torch.randn(rows, 37, dtype=kind).requires_grad_()
    weight = torch.randn(5, 37, 53, dtype=kind) / 6
    if order == LINEAR[0]:
        weight = weight.transpose(1, 2).contiguous().transpose(1, 2)
    ends = torch.tensor([0, rows // 3, rows // 3, rows // 2, rows - rows // 5])
    for given in (ends, ends.to(torch.int32), torch.full((5,), rows)):
        assert_same(_bent, x, weight.requires_grad_(), given, grad=True, rtol=1e-4, atol=1e-4)


def test_infinities_stay_in_their_group() -> None:
    x, weight = torch.randn(200, 64), torch.randn(4, 64, 96) / 8
    x[60, 3], weight[2, 5, 7], weight[0, 0, 0] = torch.inf, torch.nan, -torch.inf
    ends = torch.tensor([0, 100, 100, 200])
    assert_same(experts, x, weight, ends, rtol=1e-4, atol=1e-4)


def test_gradients_are_written_as_they_lie_in_memory() -> None:
    """The gradient of a linear layer's weight is not transposed afterwards."""
    torch._dynamo.reset()
    x, weight = torch.randn(64, 256), torch.randn(4, 192, 256, requires_grad=True)

    def layer(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
        return experts(x, weight.transpose(1, 2), ends)

    with recorded_graphs() as graphs:
        made = torch.compile(layer, backend="ingot")(x, weight, torch.tensor([9, 30, 30, 64]))
        made.sum().backward()
    text = "".join(item.as_text("hlo") for graph in graphs for item in graph.executables)
    assert not re.search(r"f32\[4,(192,256|256,192)\]\S* transpose\(", text)


def test_one_program_of_experts_serves_every_number_of_rows() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(_bent, backend="ingot", fullgraph=True)
    weight = torch.randn(4, 64, 96)
    for rows in (64, 16, 200):
        x, ends = torch.randn(rows, 64), torch.tensor([3, 8, 8, rows])
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x, weight, ends), _bent(x, weight, ends))


def test_groups_of_many_rows_are_left_to_pytorch() -> None:
    torch._dynamo.reset()
    x, weight = torch.randn(512, 64), torch.randn(4, 64, 96)
    with recorded_graphs() as graphs:
        torch.compile(_bent, backend="ingot")(x, weight, torch.tensor([100, 200, 200, 512]))
    assert graphs[0].host_ops == (("transformers.grouped_mm_fallback.default", ""),)
