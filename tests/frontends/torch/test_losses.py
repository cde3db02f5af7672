# SPDX-License-Identifier: Apache-2.0
"""Losses of a hundred training steps beside eager's, with dropout from the same generator.

Rounding differs and training amplifies that, so models are small and learn slowly.
"""

from collections.abc import Callable

import pytest
import torch
from benchmarks.with_torch import models as torch_models
from tests.frontends.torch import models
from torch import Tensor, nn
from torch.nn import functional

STEPS = 100


def _gpt() -> nn.Module:
    return torch_models.GPT(vocab=50, length=16, width=64, layers=1, dropout=0.1)


def _tokens() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(0, 50, (4, 17))
    return tokens[:, :-1], tokens[:, 1:]


class _ResNet(nn.Module):
    """A stem, two residual blocks with batch norm, dropout and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        blocks = (models.BasicBlock(8, 8, 1), models.BasicBlock(8, 16, 2))
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *blocks)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))


def _images() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 3, 12, 12), torch.randint(0, 10, (8,))


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]], float]] = {
    "gpt": (_gpt, _tokens, 1e-3),
    "resnet": (_ResNet, _images, 1e-3),
}


def _losses(name: str, *, is_compiled: bool) -> Tensor:
    make, batch, rate = CASES[name]
    torch.manual_seed(0)
    model = make().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    batches = [batch() for _ in range(4)]

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(model(x).flatten(0, -2), y.flatten())

    if is_compiled:
        torch._dynamo.reset()
        loss_of = torch.compile(loss_of, backend="ingot", fullgraph=True)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(*batches[step % len(batches)])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_losses_are_eagers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_STRICT", "1")
    want = _losses(name, is_compiled=False)
    got = _losses(name, is_compiled=True)
    assert want[-4:].mean() < want[:4].mean()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=0)
