# SPDX-License-Identifier: Apache-2.0
"""Small models with the structure of well-known ones, for tests of whole programs.

Each takes a batch first; sizes are small, so that a test compiles more than it computes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class BasicBlock(nn.Module):
    """ResNet's block of two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """He et al., 2016: stem with a max pool, four stages of two blocks, global average.

    With `depth` 1 the stages have one block each, which are all that differ.
    """

    def __init__(self, width: int = 8, classes: int = 10, depth: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        blocks: list[nn.Module] = []
        for number in range(4):
            inputs, outputs = widths[number : number + 2]
            blocks.append(BasicBlock(inputs, outputs, 1 if number == 0 else 2))
            blocks.extend(BasicBlock(outputs, outputs, 1) for _ in range(depth - 1))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(functional.relu(self.bn(self.stem(x))))
        return self.head(torch.flatten(functional.adaptive_avg_pool2d(self.blocks(x), 1), 1))


class SqueezeExcite(nn.Module):
    """A gate per channel, from global averages."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = functional.relu(self.reduce(functional.adaptive_avg_pool2d(x, 1)))
        return x * functional.hardsigmoid(self.expand(gate))


class InvertedResidual(nn.Module):
    """MobileNetV3's block: expand, depthwise convolution, squeeze and excite, project."""

    def __init__(self, channels: int, expanded: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.residual = stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(channels, expanded, 1, bias=False),
            nn.BatchNorm2d(expanded),
            nn.Hardswish(),
            nn.Conv2d(expanded, expanded, kernel, stride, kernel // 2, groups=expanded, bias=False),
            nn.BatchNorm2d(expanded),
            SqueezeExcite(expanded),
            nn.Hardswish(),
            nn.Conv2d(expanded, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return x + y if self.residual else y


class MobileNetV3(nn.Module):
    """Howard et al., 2019, with a block of each kind: with a residual, and with a stride."""

    def __init__(self, channels: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, channels, 3, 2, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.Hardswish(),
            InvertedResidual(channels, 16, 3, 1),
            InvertedResidual(channels, 32, 5, 2),
        )
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean((2, 3)))


class ViT(nn.Module):
    """Dosovitskiy et al., 2021: patches, a class token, encoder layers with norm first."""

    def __init__(self, depth: int = 1, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.encoder(x))[:, 0])


class CausalSelfAttention(nn.Module):
    """GPT-2's attention, through `scaled_dot_product_attention`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, 2)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(y.transpose(1, 2).contiguous().view(batch, length, width))


class GPT(nn.Module):
    """Radford et al., 2019: token and position embeddings, blocks, logits of tied weights."""

    def __init__(self, depth: int = 2, width: int = 32, words: int = 50, length: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width),
                    CausalSelfAttention(width, 4),
                    nn.LayerNorm(width),
                    nn.Sequential(
                        nn.Linear(width, 4 * width),
                        nn.GELU(approximate="tanh"),
                        nn.Linear(4 * width, width),
                    ),
                ]
            )
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for norm1, attention, norm2, mlp in self.blocks:
            x = x + attention(norm1(x))
            x = x + mlp(norm2(x))
        return self.norm(x) @ self.words.weight.T


class UNet(nn.Module):
    """Ronneberger et al., 2015: down with max pools, up with transposed convolutions."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1), nn.GroupNorm(4, width), nn.SiLU())
        self.middle = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, 1, 1), nn.GroupNorm(4, 2 * width), nn.SiLU()
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.last = nn.Conv2d(2 * width, 3, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x)
        low = self.middle(functional.max_pool2d(skip, 2))
        low = functional.interpolate(low, scale_factor=2.0, mode="bilinear")
        low = self.up(functional.avg_pool2d(low, 2))
        return self.last(torch.cat([skip, low], 1))


class Recurrent(nn.Module):
    """Two layers of LSTM or GRU, both directions, and a linear layer."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.rnn = getattr(nn, kind)(8, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0])
