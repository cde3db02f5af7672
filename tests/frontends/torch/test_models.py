# SPDX-License-Identifier: Apache-2.0
"""Whole models, compiled, beside eager: outputs, loss, gradients, statistics; both modes.

Training steps run in f64: with so few images batch norm amplifies rounding, and eager's own f32
gradients are 1e-3 from the exact ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.frontends.torch import models
from tests.frontends.torch.compare import assert_results
from torch import Tensor, nn
from torch.nn import functional

IMAGES = (2, 3, 32, 32)


def _images() -> Tensor:
    return torch.randn(IMAGES)


def _channels_last() -> Tensor:
    return torch.randn(IMAGES).contiguous(memory_format=torch.channels_last)


def _tokens() -> Tensor:
    return torch.randint(0, 50, (2, 16))


def _sequences() -> Tensor:
    return torch.randn(2, 6, 8)


def _resnet() -> nn.Module:
    return models.ResNet18(depth=1)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "resnet18": (models.ResNet18, _images),
    "resnet_channels_last": (_resnet, _channels_last),
    "mobilenet_v3_channels_last": (models.MobileNetV3, _channels_last),
    "vit": (models.ViT, _images),
    "gpt": (lambda: models.GPT(depth=1), _tokens),
    "unet_channels_last": (models.UNet, _channels_last),
    "lstm": (lambda: models.Recurrent("LSTM"), _sequences),
    "gru": (lambda: models.Recurrent("GRU"), _sequences),
}


@pytest.fixture(autouse=True)
def _captured_recurrences() -> Iterator[None]:
    with torch._dynamo.config.patch(allow_rnn=True):
        torch._dynamo.reset()
        yield


def _model(name: str, kind: torch.dtype) -> tuple[nn.Module, Tensor]:
    make, inputs = CASES[name]
    torch.manual_seed(0)
    model, x = make().to(kind), inputs()
    x = x.to(kind) if x.is_floating_point() else x
    if name.endswith("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    return model, x


def _twins(name: str, kind: torch.dtype) -> tuple[nn.Module, nn.Module, Tensor]:
    """Return two equal models and their input."""
    (one, x), (other, _) = _model(name, kind), _model(name, kind)
    return one, other, x


@pytest.mark.parametrize("name", CASES)
def test_inference(name: str) -> None:
    eager, other, x = _twins(name, torch.float32)
    compiled = torch.compile(other.eval(), backend="ingot", fullgraph=True)
    with torch.no_grad():
        assert_results(compiled(x), eager.eval()(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("resnet18", "lstm")])
def test_training_step(name: str) -> None:
    eager, other, x = _twins(name, torch.float64)
    compiled = torch.compile(other.train(), backend="ingot", fullgraph=True)
    results = []
    for model, parameters in ((eager.train(), eager), (compiled, other)):
        y = model(x)
        target = torch.arange(y[..., 0].numel()) % y.shape[-1]
        loss = functional.cross_entropy(y.flatten(0, -2), target)
        loss.backward()
        gradients = [item.grad for item in parameters.parameters()]
        results.append((y.detach(), loss.detach(), gradients, list(parameters.buffers())))
    assert_results(results[1], results[0], rtol=1e-7, atol=1e-9)


def _resnets() -> tuple[nn.Module, nn.Module]:
    """Return two equal ones of single blocks, for inference."""
    torch.manual_seed(0)
    eager, other = _resnet().eval(), _resnet().eval()
    other.load_state_dict(eager.state_dict())
    return eager, other


def test_one_program_serves_all_batch_sizes() -> None:
    eager, other = _resnets()
    compiled = torch.compile(other, backend="ingot", fullgraph=True)
    counters = torch._dynamo.utils.counters["stats"]
    with torch.no_grad():
        first = torch.randn(6, *IMAGES[1:])
        torch._dynamo.mark_dynamic(first, 0)
        compiled(first)
        before = counters["unique_graphs"]
        for batch in (2, 4, 5, 7):
            x = torch.randn(batch, *IMAGES[1:])
            assert_results(compiled(x), eager(x), rtol=1e-4, atol=1e-5)
    assert counters["unique_graphs"] == before


def test_every_size_of_an_image_is_symbolic() -> None:
    eager, other = _resnets()
    compiled = torch.compile(other, backend="ingot", fullgraph=True, dynamic=True)
    with torch.no_grad():
        for batch, size in ((2, 32), (3, 48)):
            x = torch.randn(batch, 3, size, size)
            assert_results(compiled(x), eager(x), rtol=1e-4, atol=1e-5)
