# SPDX-License-Identifier: Apache-2.0
"""Models of `benchmarks.with_torch.programs` that no library has in the size that is wanted.

Others come from torchvision, timm, transformers and diffusers; `torchvision` imports it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def torchvision() -> Any:
    """Return the module torchvision, beside a CPU build of PyTorch, too.

    The wheel on PyPI is built for CUDA. Beside a CPU build its ops are missing, and its import
    fails where it describes two of them; models of images use none, so the two are declared here.
    """
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", schema)
    import torchvision

    return torchvision


def mlp() -> nn.Module:
    """Return a perceptron 784 -> 512 -> 256 -> 10."""
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )


class Block(nn.Module):
    """A transformer block as in nanoGPT: norm, causal attention, norm, MLP."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return f32[batch, length, width] of the same."""
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        drop = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=True)
        mixed = self.out(mixed.transpose(1, 2).reshape(x.shape))
        x = x + functional.dropout(mixed, self.dropout, self.training)
        made = self.mlp(self.norm2(x))
        return x + functional.dropout(made, self.dropout, self.training)


class GPT(nn.Module):
    """A GPT as in nanoGPT, its output weights those of its embedding."""

    def __init__(self, vocab: int, length: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocab, width), nn.Embedding(length, width)
        blocks = (Block(width, width // 64, dropout) for _ in range(layers))
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(width))
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits f32[batch, length, vocab] of tokens s64[batch, length]."""
        positions = torch.arange(tokens.shape[1])
        return self.head(self.blocks(self.words(tokens) + self.positions(positions)))


class Recommender(nn.Module):
    """DLRM: embeddings of sparse features, an MLP of dense ones, and products of all pairs."""

    def __init__(self, rows: int, tables: int, dense: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(
            nn.Linear(dense, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU()
        )
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(width + pairs, 256),
            nn.ReLU(),
            nn.Linear(256, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        """Return logits f32[batch].

        Args:
            dense: f32[batch, dense].
            sparse: s64[batch, tables, words]: rows whose embeddings are added.
        """
        low = self.bottom(dense)
        found = [table(sparse[:, number]) for number, table in enumerate(self.tables)]
        features = torch.stack([low, *found], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        pairs = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([low, pairs], 1)).squeeze(1)


class PointNet(nn.Module):
    """PointNet for classification, without its transforms: shared MLPs, then a maximum."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in ((3, 64), (64, 128), (128, 512)):
            layers += [nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU()]
        self.points = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, classes))

    def forward(self, points: Tensor) -> Tensor:
        """Return logits f32[batch, classes] of f32[batch, 3, points]."""
        return self.head(self.points(points).amax(2))


class Recurrent(nn.Module):
    """Two layers of LSTM and a classifier of the last output."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits f32[batch, classes] of f32[batch, time, width]."""
        return self.head(self.lstm(x)[0][:, -1])


class GraphLayer(nn.Module):
    """A layer of GraphSAGE: the mean of the neighbors' features, by scatter."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(before, after), nn.Linear(before, after, bias=False)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Return f32[nodes, after] of f32[nodes, before] and edges s64[edges] each."""
        total = torch.zeros_like(x).index_add(0, target, x[source])
        count = torch.zeros(x.shape[0]).scatter_add(0, target, torch.ones(target.shape[0]))
        return self.own(x) + self.others(total / count.clamp(min=1).unsqueeze(1))


class GraphNetwork(nn.Module):
    """Two layers of GraphSAGE that classify the nodes of a graph."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layer1, self.layer2 = GraphLayer(features, 128), GraphLayer(128, classes)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Return logits f32[nodes, classes]."""
        return self.layer2(self.layer1(x, source, target).relu(), source, target)
