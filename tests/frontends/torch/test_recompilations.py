# SPDX-License-Identifier: Apache-2.0
"""Layers and models over five batches and five lengths: what was compiled serves all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontends.torch import models
from tests.frontends.torch.compare import assert_results
from torch import Tensor, nn
from torch._dynamo.backends.registry import lookup_backend
from torch.nn import functional

SIZES = [(2, 9), (5, 17), (3, 12), (7, 23), (6, 30)]
"""Batches and lengths. Dimensions that are equal in the first call are one symbol to TorchDynamo,
and a symbol that meets a known size (images of 3 channels in a batch of 3) is that size."""


class Counted:
    """The backend, and how often it compiled.

    `CompileCounterWithBackend` counts attempts too, which TorchDynamo gives up and makes again when
    a number of the program (the epsilon of a norm) turns out to be no symbol.
    """

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        compiled = lookup_backend("ingot")(graph, inputs)
        self.graphs += 1
        return compiled


class Causal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


def _image(batch: int, length: int) -> Tensor:
    return torch.randn(batch, 4, length + 9, length + 11)


def _sequence(batch: int, length: int) -> Tensor:
    return torch.randn(batch, length, 8)


def _line(batch: int, length: int) -> Tensor:
    return torch.randn(batch, 8, length)


def _heads(batch: int, length: int) -> Tensor:
    return torch.randn(batch, 4, length, 8)


def _tokens(batch: int, length: int) -> Tensor:
    return torch.randint(0, 50, (batch, length))


Case = tuple[Callable[[], nn.Module], Callable[[int, int], Tensor]]
LAYERS: dict[str, Case] = {
    "linear": (lambda: nn.Linear(8, 16), _sequence),
    "conv": (lambda: nn.Conv2d(4, 8, 3, 2, 1), _image),
    "conv of groups": (lambda: nn.Conv2d(4, 8, 3, groups=2), _image),
    "conv1d": (lambda: nn.Conv1d(8, 8, 3), _line),
    "transposed conv": (lambda: nn.ConvTranspose2d(4, 8, 2, 2), _image),
    "batch norm": (lambda: nn.BatchNorm2d(4), _image),
    "group norm": (lambda: nn.GroupNorm(2, 4), _image),
    "layer norm": (lambda: nn.LayerNorm(8), _sequence),
    "nearest": (lambda: nn.Upsample(scale_factor=2), _image),
    "bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), _image),
    "bicubic": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), _image),
    "max pool": (lambda: nn.MaxPool2d(2), _image),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d(3), _image),
    "embedding": (lambda: nn.Embedding(50, 8), _tokens),
    "bag": (lambda: nn.EmbeddingBag(50, 8), _tokens),
    "bag of maxima": (lambda: nn.EmbeddingBag(50, 8, mode="max"), _tokens),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
        _sequence,
    ),
    "attention": (Causal, _heads),
    "unfold": (lambda: nn.Unfold(3), _image),
}
MODELS: dict[str, tuple[Case, bool]] = {
    "GPT": ((lambda: models.GPT(depth=1, length=32), _tokens), True),
    "block of ResNet": ((lambda: models.BasicBlock(4, 8, 2), _image), True),
    "ViT": ((models.ViT, lambda batch, _: torch.randn(batch, 3, 32, 32)), False),
    "MobileNetV3": (
        (models.MobileNetV3, lambda n, s: torch.randn(n, 3, s + 23, 2 * s + 16)),
        False,
    ),
}
"""Models, and whether they are trained."""


def _differ(case: Case, dynamic: bool | None, *, train: bool, mark: bool = False) -> int:
    """Compare calls of all sizes with eager's; return how many graphs were compiled."""
    make, inputs = case
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, backend = make().train(train), Counted()
    compiled = torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)
    for sizes in SIZES:
        x = inputs(*sizes)
        results = []
        state = {name: value.clone() for name, value in model.state_dict().items()}
        for call in (compiled, model):
            given = x.clone()
            for dim in range(x.dim() if mark else 0):
                if x.shape[dim] != inputs(8, 8).shape[dim]:
                    torch._dynamo.mark_dynamic(given, dim)
            model.load_state_dict(state)
            with torch.set_grad_enabled(train):
                y = call(given)
            leaves = list(model.parameters()) if train else []
            made = torch.autograd.grad(y.square().mean(), leaves) if leaves else ()
            results.append((y.detach(), made))
        assert_results(*results, strides=False, rtol=2e-3, atol=1e-4)
    return backend.graphs


@pytest.mark.parametrize("name", LAYERS)
def test_training_of_layers(name: str) -> None:
    assert _differ(LAYERS[name], True, train=True) == 1


@pytest.mark.parametrize("name", LAYERS)
def test_inference_of_layers(name: str) -> None:
    """TorchDynamo's first graph has known sizes, if it is not told otherwise."""
    assert _differ(LAYERS[name], None, train=False) == 2


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    case, train = MODELS[name]
    assert _differ(case, True, train=train) == 1


@pytest.mark.parametrize("name", ["conv", "group norm", "bilinear", "bag", "encoder layer"])
def test_marked_dimensions(name: str) -> None:
    assert _differ(LAYERS[name], None, train=False, mark=True) == 1
