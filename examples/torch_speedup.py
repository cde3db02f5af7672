# SPDX-License-Identifier: Apache-2.0
"""A model made faster: the same network run by PyTorch's kernels and compiled by Ingot.

`backend="ingot"` is all that is Ingot's: the package is found by its entry point. Run it with
`python`; it prints that results agree, and what a call takes either way.
"""

import time

import torch
from torch import nn


def widened(channels=24, wide=72):
    """Return a block as in MobileNetV3: widen, filter each channel, narrow."""
    return nn.Sequential(
        nn.Conv2d(channels, wide, 1, bias=False),
        nn.BatchNorm2d(wide),
        nn.Hardswish(),
        nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False),
        nn.BatchNorm2d(wide),
        nn.Hardswish(),
        nn.Conv2d(wide, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
    )


class Network(nn.Module):
    """A few such blocks with residuals: f32[n, 24, h, w] to a probability for each channel."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(widened() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x.mean((2, 3)).softmax(-1)


def milliseconds(model, x, calls=20):
    """Return what the fastest of some calls takes."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        model(x)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main():
    torch.manual_seed(0)
    model = Network().eval()
    compiled = torch.compile(model, backend="ingot")
    x = torch.randn(4, 24, 28, 28)
    with torch.no_grad():
        difference = float((compiled(x) - model(x)).abs().max())
        print(f"results agree: {difference < 1e-6}")
        eager, ours = milliseconds(model, x), milliseconds(compiled, x)
    print(f"PyTorch's kernels {eager:.2f} ms, compiled by Ingot {ours:.2f} ms")


if __name__ == "__main__":
    main()
