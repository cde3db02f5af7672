# SPDX-License-Identifier: Apache-2.0
"""More programs as users write them: detection, flow, quantization in training, adapters, rays.

They are added to `user_programs.PROGRAMS`.
"""

from __future__ import annotations

import math

import torch
from tests.frontends.torch.user_programs import Program, program, variable
from torch import Tensor, nn
from torch.nn import functional


def _overlaps(boxes: Tensor) -> Tensor:
    corners = torch.max(boxes[:, None, :2], boxes[None, :, :2])
    ends = torch.min(boxes[:, None, 2:], boxes[None, :, 2:])
    common = (ends - corners).clamp(min=0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return common / (areas[:, None] + areas[None] - common)


@program
def suppression_of_boxes() -> Program:
    """Non-maximum suppression written by hand: a box is dropped if a better one overlaps it."""

    def function(boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        order = scores.argsort(descending=True)
        overlaps = _overlaps(boxes[order])
        kept = torch.ones(len(boxes), dtype=torch.bool)
        for number in range(len(boxes)):
            later = torch.arange(len(boxes)) > number
            kept = kept & ~((overlaps[number] > 0.3) & later & kept[number])
        return order[kept], overlaps

    boxes = torch.rand(9, 4) * 6
    boxes[:, 2:] = boxes[:, :2] + 1 + torch.rand(9, 2) * 6
    return Program(function, (boxes, torch.rand(9)))


@program
def warped_by_flow() -> Program:
    """Optical flow: an image sampled where a network says, and a volume of correlations."""
    network = nn.Conv2d(6, 2, 3, padding=1)

    def function(first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        flow = network(torch.cat([first, second], 1))
        rows, columns = flow.shape[2:]
        down, right = torch.meshgrid(
            torch.arange(rows).float(), torch.arange(columns).float(), indexing="ij"
        )
        across = 2 * (right + flow[:, 0]) / (columns - 1) - 1
        along = 2 * (down + flow[:, 1]) / (rows - 1) - 1
        grid = torch.stack([across, along], -1)
        warped = functional.grid_sample(second, grid, padding_mode="border", align_corners=True)
        inside = (grid.abs() <= 1).all(-1)
        apart = (((first - warped) ** 2 + 1e-6) ** 0.45).mean(1)
        wide = functional.pad(second, (1, 1, 1, 1))
        volume = torch.stack(
            [(first * wide[:, :, i : i + rows, j : j + columns]).mean(1)
             for i in range(3) for j in range(3)], 1,
        )  # fmt: skip
        rough = (flow[:, :, 1:] - flow[:, :, :-1]).abs().mean()
        return (apart * inside).sum() / inside.sum() + rough, volume

    return Program(function, (variable(2, 3, 7, 9), variable(2, 3, 7, 9)), [*network.parameters()])


@program
def quantized_in_training() -> Program:
    """Activations in eight bits by an observed range, weights by channel; batch norm."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(3, 8, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(8)
            self.register_buffer("least", torch.tensor(math.inf))
            self.register_buffer("greatest", torch.tensor(-math.inf))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            self.least.copy_(torch.min(self.least, x.detach().min()))
            self.greatest.copy_(torch.max(self.greatest, x.detach().max()))
            step = ((self.greatest - self.least) / 255).clamp(min=1e-8)
            zero = (-self.least / step).round().clamp(0, 255).to(torch.int32)
            x = torch.fake_quantize_per_tensor_affine(x, step, zero, 0, 255)
            weight = self.layer.weight
            steps = weight.detach().abs().amax((1, 2, 3)).clamp(min=1e-8) / 127
            zeros = torch.zeros(8, dtype=torch.int32)
            weight = torch.fake_quantize_per_channel_affine(weight, steps, zeros, 0, -127, 127)
            made = self.norm(functional.conv2d(x, weight, padding=1)).relu() * 0.1
            return made, self.least.clone(), self.greatest.clone()

    layer = Layer()
    return Program(layer, (variable(4, 3, 5, 5),), list(layer.parameters()))


@program
def adapters_of_frozen_weights() -> Program:
    """LoRA: a transformer layer whose weights are frozen but for two small factors of some."""

    class Adapted(nn.Module):
        def __init__(self, layer: nn.Linear) -> None:
            super().__init__()
            self.layer = layer
            self.down = nn.Parameter(torch.randn(2, layer.in_features) * 0.1)
            self.up = nn.Parameter(torch.randn(layer.out_features, 2) * 0.1)

        def forward(self, x: Tensor) -> Tensor:
            small = functional.dropout(x, 0.1, self.training) @ self.down.T @ self.up.T
            return self.layer(x) + small * 2

    model = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, norm_first=True)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.linear1, model.linear2 = Adapted(model.linear1), Adapted(model.linear2)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return Program(model, (torch.randn(2, 5, 16),), trained)


@program
def pairs_and_a_queue() -> Program:
    """Contrastive learning: pairs in a batch, and a queue of earlier ones, which is written."""
    left, right = nn.Linear(6, 4), nn.Linear(5, 4)
    scale, queue = nn.Parameter(torch.tensor(2.0)), torch.randn(10, 4)

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        one, other = functional.normalize(left(x), dim=-1), functional.normalize(right(y), dim=-1)
        logits = one @ other.T * scale.exp().clamp(max=100)
        labels = torch.arange(len(x))
        queue.copy_(torch.cat([other.detach(), queue])[:10])
        alike = (one * other).sum(1, keepdim=True)
        against = torch.logsumexp(torch.cat([alike, one @ queue.T], 1) / 0.07, 1).mean()
        both = functional.cross_entropy(logits, labels) + functional.cross_entropy(logits.T, labels)
        return both, against, (logits.argmax(1) == labels).float().mean(), queue.clone()

    parameters = [*left.parameters(), *right.parameters(), scale]
    return Program(function, (variable(3, 6), variable(3, 5)), parameters)


@program
def colors_along_rays() -> Program:
    """A radiance field: random depths, encoded points, light that is left, a finer choice."""
    network = nn.Sequential(nn.Linear(15, 16), nn.ReLU(), nn.Linear(16, 4))

    def function(origins: Tensor, directions: Tensor) -> tuple[Tensor, ...]:
        depths = torch.linspace(2, 6, 8) + torch.rand(len(origins), 8) * 0.2
        points = origins[:, None] + directions[:, None] * depths[..., None]
        waves = [wave(points * 2**n) for n in range(2) for wave in (torch.sin, torch.cos)]
        made = network(torch.cat([points, *waves], -1))
        last = torch.full((len(origins), 1), 1e10)
        gaps = torch.cat([depths.diff(dim=1), last], 1) * directions.norm(dim=-1, keepdim=True)
        opaque = 1 - torch.exp(-made[..., 3].relu() * gaps)
        clear = torch.cat([torch.ones(len(origins), 1), 1 - opaque + 1e-10], 1)
        weights = opaque * clear.cumprod(1)[:, :-1]
        shares = ((weights + 1e-5) / (weights + 1e-5).sum(1, keepdim=True)).cumsum(1)
        chosen = torch.searchsorted(shares.detach(), torch.rand(len(origins), 5)).clamp(max=7)
        color = (weights[..., None] * made[..., :3].sigmoid()).sum(1)
        return color, (weights * depths).sum(1), depths.gather(1, chosen)

    return Program(function, (torch.randn(3, 3), torch.randn(3, 3)), list(network.parameters()))
