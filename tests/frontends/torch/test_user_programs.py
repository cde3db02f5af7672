# SPDX-License-Identifier: Apache-2.0
"""Programs as users write them: results, written buffers and gradients beside eager's; two calls.

Graph breaks are allowed, as they are by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontends.torch import user_training_programs as _more  # noqa: F401 - adds programs
from tests.frontends.torch.compare import assert_results, copied
from tests.frontends.torch.user_programs import PROGRAMS
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves, tree_map_only

from ingot.frontends.torch.graphs import compiled_graphs


def _called(name: str, *, is_compiled: bool) -> list[Any]:
    """Return results and gradients of two calls of a program made anew."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    function, args, parameters = PROGRAMS[name]()
    if is_compiled:
        function = torch.compile(function, backend="ingot")
    found: list[Any] = []
    for call in range(2):
        torch.manual_seed(call)
        given = copied(args)
        made = function(*given)
        found.append(tree_map_only(Tensor, lambda item: item.detach().clone(), made))
        leaves = [item for item in (*given, *parameters) if item.requires_grad]
        losses = [
            item.abs().sum()
            for item in tree_leaves(made)
            if isinstance(item, Tensor) and item.requires_grad
        ]
        if losses:
            found.append(torch.autograd.grad(sum(losses), leaves, allow_unused=True))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_eagers(name):
    got = _called(name, is_compiled=True)
    assert_results(got, _called(name, is_compiled=False), strides=False, rtol=1e-4, atol=1e-5)


def test_autocast_rounds_to_bf16():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
    head = nn.Linear(8 * 64, 10)

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = head(model(x).flatten(1))
            return functional.cross_entropy(logits, torch.arange(4)), logits

    x = torch.randn(4, 3, 8, 8)
    runs = []
    for call in (function, torch.compile(function, backend="ingot", fullgraph=True)):
        loss, logits = call(x)
        assert logits.dtype is torch.bfloat16
        runs.append([loss, logits, *torch.autograd.grad(loss, list(head.parameters()))])
    assert_results(*reversed(runs), strides=False, rtol=2e-2, atol=2e-2)


def _of_batches(model: nn.Module, compiled: Callable[..., Tensor], shapes: list[Any]) -> list[Any]:
    found: list[Any] = []
    for shape in shapes:
        torch.manual_seed(sum(shape))
        made = compiled(torch.randn(shape))
        parameters = list(model.parameters())
        found += [made.detach(), *torch.autograd.grad(made.sum(), parameters)]
    return found


def test_any_batch_and_length_by_two_graphs():
    torch._dynamo.reset()
    model = nn.Sequential(
        nn.Conv1d(3, 8, 3, padding=2, dilation=2), nn.ReLU(),
        nn.Conv1d(8, 8, 3, padding=1, groups=4), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
    )  # fmt: skip
    shapes = [(2, 3, 20), (3, 3, 31), (5, 3, 17), (4, 3, 64), (7, 3, 100)]
    compiled = torch.compile(model, backend="ingot", dynamic=True)
    before = {graph.name for graph in compiled_graphs()}
    got = _of_batches(model, compiled, shapes)
    made = {graph.name for graph in compiled_graphs()} - before
    assert len(made) == 2  # forward and backward
    assert_results(got, _of_batches(model, model, shapes), strides=False, rtol=1e-4, atol=1e-4)


def test_batches_of_none_and_one():
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    shapes = [(size, 4) for size in (3, 0, 1, 5, 2, 0)]
    got = _of_batches(model, torch.compile(model, backend="ingot"), shapes)
    assert_results(got, _of_batches(model, model, shapes), strides=False, rtol=1e-4, atol=1e-5)


def test_keys_and_values_that_grow():
    torch.manual_seed(0)
    embedding, layer, head = nn.Embedding(20, 16), nn.Linear(16, 48), nn.Linear(16, 20)

    def step(word: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        query, key, value = layer(embedding(word)).chunk(3, -1)
        keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
        heads = [item.unflatten(-1, (2, 8)).transpose(1, 2) for item in (query, keys, values)]
        made = functional.scaled_dot_product_attention(*heads)
        return head(made.transpose(1, 2).flatten(2)), keys, values

    @torch.no_grad()
    def generated(step: Callable[..., Any]) -> list[Tensor]:
        word, keys, values = torch.tensor([[3]]), torch.zeros(1, 0, 16), torch.zeros(1, 0, 16)
        logits = []
        for _ in range(8):
            made, keys, values = step(word, keys, values)
            word = made[:, -1:].argmax(-1)
            logits.append(made)
        return logits

    torch._dynamo.reset()
    got = generated(torch.compile(step, backend="ingot"))
    assert_results(got, generated(step), strides=False, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["RAdam", "NAdam", "Adamax", "RMSprop", "Adadelta", "Adafactor"])
def test_steps_of_optimizers(name):
    runs = []
    for is_compiled in (True, False):
        torch._dynamo.reset()
        torch.manual_seed(1)
        model = nn.Linear(4, 3)
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-2)
        step = torch.compile(optimizer.step, backend="ingot") if is_compiled else optimizer.step
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(5, 4)).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            step()
        runs.append([item.detach() for item in model.parameters()])
    assert_results(*runs, rtol=1e-5, atol=1e-6)


def test_an_encoder_gives_what_eager_gives_where_nothing_is_hidden():
    """Eager's inference gives zeros at hidden elements; TorchDynamo traces the ordinary layers."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, hidden = torch.randn(3, 6, 16), torch.arange(6) >= torch.tensor([[4], [2], [6]])
    compiled = torch.compile(model, backend="ingot", fullgraph=True)
    with torch.no_grad():
        got, want = (each(x, src_key_padding_mask=hidden) for each in (compiled, model))
    assert_results(got[~hidden], want[~hidden], rtol=1e-4, atol=1e-5)
    assert not want[hidden].any()
    assert got[hidden].all()
