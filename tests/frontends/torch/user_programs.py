# SPDX-License-Identifier: Apache-2.0
"""Programs as users of PyTorch write them, small: `PROGRAMS`.

Each makes a function, its arguments, and the parameters whose gradients are compared as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils import checkpoint


class Program(NamedTuple):
    """One program.

    Attributes:
        function: what is compiled.
        args: its arguments.
        parameters: of its modules.
    """

    function: Callable[..., Any]
    args: tuple[Tensor, ...]
    parameters: Sequence[Tensor] = ()


PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    PROGRAMS[make.__name__] = make
    return make


def variable(*shape: int, **options: Any) -> Tensor:
    return torch.randn(*shape, requires_grad=True, **options)


class _Rounded(torch.autograd.Function):
    """Rounds to eight bits with a learned step; the gradient passes where nothing is clipped."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor) -> Tensor:
        ctx.save_for_backward(x, step)
        return torch.round(x / step).clamp(-128, 127) * step

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, step = ctx.saved_tensors
        inside = (x.abs() <= 128 * step).to(gradient.dtype)
        of_step = gradient * (torch.round(x / step) - x / step * inside)
        return gradient * inside, of_step.sum().reshape(step.shape)


@program
def custom_autograd_function() -> Program:
    layer, step = nn.Linear(32, 16), nn.Parameter(torch.tensor(0.02))

    def function(x: Tensor) -> Tensor:
        weight = _Rounded.apply(layer.weight, step)
        return functional.linear(_Rounded.apply(x, step), weight, layer.bias).relu().square().mean()

    return Program(function, (variable(7, 32),), [*layer.parameters(), step])


@program
def hooks() -> Program:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    model[0].register_forward_hook(lambda module, given, result: result * 0.5)
    model[2].register_forward_pre_hook(lambda module, given: (given[0].clamp(-1, 1),))
    model[2].weight.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
    return Program(lambda x: model(x).sum(), (variable(5, 8),), list(model.parameters()))


@program
def codebook_in_buffers() -> Program:
    """Vector quantization; forward updates the codes, a mean and a count."""

    class Quantizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.long))
            self.register_buffer("mean", torch.zeros(6))
            self.register_buffer("codes", torch.randn(10, 6))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            self.count += 1
            self.mean.lerp_(x.detach().mean(0), 0.1)
            nearest = torch.cdist(x, self.codes).argmin(1)
            chosen = functional.one_hot(nearest, 10).to(x.dtype)
            self.codes.mul_(0.99).add_(chosen.t() @ x.detach(), alpha=0.01)
            made = x + (self.codes[nearest] - x).detach()
            state = (self.count.clone(), self.mean.clone(), self.codes.clone())
            return (made - self.mean) / self.count, *state

    return Program(Quantizer(), (variable(12, 6),))


@program
def in_place_on_views() -> Program:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x.clone()
        z[::2, 1:3] += y
        z.t()[2].mul_(3)
        z[z > 2] = 2.0
        z[:, -1].zero_()
        z.diagonal().fill_(0.5)
        z.select(0, 1).copy_(y[0, :1].expand(6))
        return z, z.unfold(1, 3, 2).sum(-1), z.narrow(1, 1, 2).contiguous()

    return Program(function, (variable(6, 6), variable(3, 2)))


@program
def masked_loss() -> Program:
    embedding, head = nn.Embedding(20, 16, padding_idx=0), nn.Linear(16, 20)

    def function(words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        mask = torch.arange(words.shape[1])[None] < lengths[:, None]
        logits = head(embedding(words))
        losses = functional.cross_entropy(
            logits.transpose(1, 2), words, reduction="none", ignore_index=0, label_smoothing=0.1
        )
        right = ((logits.argmax(-1) == words) & mask).float().sum() / mask.sum()
        return ((losses * mask).sum(1) / mask.sum(1).clamp(min=1)).mean(), right

    parameters = [*embedding.parameters(), *head.parameters()]
    return Program(
        function, (torch.randint(0, 20, (5, 9)), torch.tensor([9, 3, 0, 5, 1])), parameters
    )


@program
def selective_checkpoint() -> Program:
    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        kinds = checkpoint.CheckpointPolicy
        is_product = op == torch.ops.aten.mm.default
        return kinds.MUST_SAVE if is_product else kinds.PREFER_RECOMPUTE

    contexts = functools.partial(checkpoint.create_selective_checkpoint_contexts, policy)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16))

    def function(x: Tensor) -> Tensor:
        made = checkpoint.checkpoint(model, x, use_reentrant=False, context_fn=contexts)
        return made.square().mean()

    return Program(function, (variable(5, 16),), list(model.parameters()))


@program
def transforms_of_functions() -> Program:
    weight = torch.randn(4, 3)

    def vector(x: Tensor) -> Tensor:
        return torch.tanh(x @ weight)

    def number(x: Tensor) -> Tensor:
        return vector(x).sum()

    def function(x: Tensor) -> tuple[Tensor, ...]:
        pairs = vmap(vmap(lambda a, b: (a * b).sum(), (0, None)), (None, 0))(x, x)
        directional = jvp(vector, (x,), (x * 2,))[1]
        return (
            vmap(grad(number))(x),
            jacrev(vector)(x[0]),
            directional,
            pairs,
            jacrev(jacrev(number))(x[1]),
        )

    return Program(function, (torch.randn(5, 4),))


@program
def gradient_of_each_sample() -> Program:
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6, 3))
    parameters = {name: item.detach() for name, item in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    def function(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        found = vmap(grad(loss), (None, 0, 0))(parameters, x, y)
        norms = torch.stack([item.flatten(1).norm(dim=1) for item in found.values()]).norm(dim=0)
        factor = (1 / norms).clamp(max=1)
        return {
            name: (item * factor.view(-1, *[1] * (item.dim() - 1))).mean(0)
            for name, item in found.items()
        }

    return Program(function, (torch.randn(6, 2, 8), torch.randint(0, 3, (6,))))


@program
def transformer_with_masks() -> Program:
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[1, 4:] = True

    def function(source: Tensor, target: Tensor, padding: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return model(
            source, target, tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip

    args = (variable(3, 6, 16), variable(3, 5, 16), padding)
    return Program(function, args, list(model.parameters()))


@program
def parametrized_weights() -> Program:
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(8, 8)), nn.ReLU(),
        parametrizations.spectral_norm(nn.Linear(8, 8)), nn.Tanh(),
        parametrizations.orthogonal(nn.Linear(8, 8)),
    )  # fmt: skip
    return Program(lambda x: model(x).square().sum(), (variable(4, 8),), list(model.parameters()))


@program
def moving_average_of_weights() -> Program:
    """Student and teacher, with an optimizer written by hand."""
    student, teacher = nn.Linear(6, 6), nn.Linear(6, 6)
    momentum = [torch.zeros_like(item) for item in student.parameters()]

    def function(x: Tensor) -> tuple[Any, ...]:
        made = student(x)
        loss = made.square().mean() + functional.mse_loss(made, teacher(x).detach())
        found = torch.autograd.grad(loss, list(student.parameters()))
        with torch.no_grad():
            torch._foreach_mul_(momentum, 0.9)
            torch._foreach_add_(momentum, list(found))
            for ours, theirs, step in zip(
                student.parameters(), teacher.parameters(), momentum, strict=True
            ):
                ours.sub_(0.1 * step)
                theirs.lerp_(ours, 0.01)
        copies = [item.detach().clone() for item in (*student.parameters(), *teacher.parameters())]
        return loss.detach(), copies

    return Program(function, (torch.randn(4, 6),))


@program
def fourier_layer() -> Program:
    """A layer of a Fourier neural operator."""
    weight = nn.Parameter(torch.randn(4, 4, 6, 4, dtype=torch.cfloat) * 0.1)
    skip = nn.Conv2d(4, 4, 1)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        modes = torch.fft.rfft2(x)
        kept = torch.zeros_like(modes)
        kept[:, :, :6, :4] = torch.einsum("bixy,ioxy->boxy", modes[:, :, :6, :4], weight)
        made = functional.gelu(torch.fft.irfft2(kept, s=x.shape[-2:]) + skip(x))
        return made, torch.view_as_real(modes).abs().mean()

    return Program(function, (variable(2, 4, 12, 10),), [weight, *skip.parameters()])


@program
def spectrogram_loss() -> Program:
    window = torch.hann_window(32)

    def magnitudes(x: Tensor) -> Tensor:
        made = torch.stft(x, 32, 8, window=window, return_complex=True)
        return made.abs().clamp(min=1e-5)

    def function(x: Tensor, y: Tensor) -> Tensor:
        ours, theirs = magnitudes(x), magnitudes(y)
        far = torch.linalg.norm(ours - theirs) / torch.linalg.norm(theirs)
        return functional.l1_loss(ours.log(), theirs.log()) + far

    return Program(function, (variable(2, 160), torch.randn(2, 160)))


@program
def bags_of_embeddings() -> Program:
    mean = nn.EmbeddingBag(20, 8, mode="mean")
    total = nn.EmbeddingBag(20, 8, mode="sum", include_last_offset=True)
    weights = nn.Parameter(torch.rand(11))

    def function(words: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        ends = torch.cat([offsets, torch.tensor([11])])
        return mean(words, offsets), total(words, ends, per_sample_weights=weights)

    args = (torch.randint(0, 20, (11,)), torch.tensor([0, 4, 4, 9]))
    return Program(function, args, [*mean.parameters(), *total.parameters(), weights])


@program
def branches() -> Program:
    layer = nn.Linear(4, 4)

    def function(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: layer(x).sin(), lambda x: layer(x * 2).cos(), (x,))

    return Program(function, (variable(3, 4),), list(layer.parameters()))


@program
def cache_of_keys() -> Program:
    """A step of generation that writes keys and values where they belong."""
    layer = nn.Linear(16, 48).requires_grad_(False)
    keys, values = torch.zeros(1, 2, 32, 8), torch.zeros(1, 2, 32, 8)

    def function(x: Tensor, position: Tensor) -> tuple[Tensor, ...]:
        query, key, value = (
            part.unflatten(-1, (2, 8)).transpose(1, 2) for part in layer(x).chunk(3, -1)
        )
        keys.index_copy_(2, position, key)
        values[:, :, position] = value
        mask = torch.arange(32)[None] <= position[:, None]
        made = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return made, keys.clone(), values.clone()

    return Program(function, (torch.randn(1, 3, 16), torch.tensor([4, 5, 6])))


@program
def weights_of_eight_bits() -> Program:
    weight, scales = torch.randint(-128, 128, (16, 32), dtype=torch.int8), torch.rand(16)

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        made = functional.linear(x, weight.to(x.dtype)) * scales
        step = x.abs().amax(-1, keepdim=True) / 127
        rounded = (x / step).round().clamp(-128, 127).to(torch.int8)
        return made, torch._int_mm(rounded, weight.t().contiguous()).to(x.dtype) * step * scales

    return Program(function, (torch.randn(24, 32),))


@program
def messages_on_a_graph() -> Program:
    layer = nn.Linear(5, 5)

    def function(x: Tensor, edges: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        messages = layer(x)[edges[0]] * weight[:, None]
        target = edges[1]
        at = target[:, None].expand_as(messages)
        most = torch.zeros_like(x).scatter_reduce(0, at, messages, "amax", include_self=False)
        mean = torch.zeros_like(x).index_reduce(0, target, messages, "mean")
        # The softmax of a node's edges.
        zeros = torch.zeros(x.shape[0])
        peak = zeros.scatter_reduce(0, target, weight, "amax", include_self=False)
        powers = (weight - peak[target]).exp()
        return most, mean, powers / zeros.index_add(0, target, powers)[target]

    args = (variable(7, 5), torch.randint(0, 7, (2, 20)), variable(20))
    return Program(function, args, list(layer.parameters()))


@program
def experts_by_mask() -> Program:
    """A mixture of experts that chooses each one's rows."""
    gate = nn.Linear(8, 4)
    before, after = (nn.Parameter(torch.randn(4, *dims) * 0.1) for dims in ((8, 16), (16, 8)))

    def function(x: Tensor) -> Tensor:
        weight, expert = gate(x).softmax(-1).topk(2, -1)
        made = torch.zeros_like(x)
        for number in range(4):
            row, choice = torch.where(expert == number)
            hidden = functional.silu(x[row] @ before[number]) @ after[number]
            made.index_add_(0, row, hidden * weight[row, choice, None])
        return made

    return Program(function, (variable(10, 8),), [*gate.parameters(), before, after])


@program
def complex_network() -> Program:
    weight = nn.Parameter(torch.randn(6, 6, dtype=torch.cfloat))
    bias = nn.Parameter(torch.randn(6, dtype=torch.cfloat))

    def function(x: Tensor) -> tuple[Tensor, ...]:
        z = torch.complex(x, x.flip(-1)) @ weight + bias
        z = torch.polar(functional.relu(z.abs() - 0.1), z.angle())
        solved = torch.linalg.solve(weight.conj() + 3 * torch.eye(6), z.unsqueeze(-1))
        return (z.conj() * z).real.sum(), torch.view_as_real(solved).square().mean()

    return Program(function, (variable(4, 6),), [weight, bias])


@program
def gaussian_process() -> Program:
    length, variance = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(1.0))

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        far = (a[:, None] - b[None]).square().sum(-1)
        return variance * torch.exp(-0.5 * far / length**2)

    def function(x: Tensor, y: Tensor, new: Tensor) -> tuple[Tensor, ...]:
        covariance = kernel(x, x) + 0.1 * torch.eye(x.shape[0])
        factor = torch.linalg.cholesky(covariance)
        solved = torch.cholesky_solve(y[:, None], factor)
        reach = torch.linalg.solve_triangular(factor, kernel(x, new), upper=False)
        loss = 0.5 * (y @ solved[:, 0]) + factor.diagonal().log().sum() + torch.logdet(covariance)
        return loss, (kernel(new, x) @ solved)[:, 0], variance - reach.square().sum(0)

    args = (torch.randn(8, 2), torch.randn(8), torch.randn(3, 2))
    return Program(function, args, [length, variance])


@program
def policy_optimization() -> Program:
    policy, value = nn.Linear(6, 4), nn.Linear(6, 1)

    def function(seen: Tensor, action: Tensor, reward: Tensor, old: Tensor) -> Tensor:
        expected = value(seen).squeeze(-1)
        advantage, running = torch.zeros_like(reward), torch.zeros(reward.shape[1])
        with torch.no_grad():
            for step in reversed(range(reward.shape[0] - 1)):
                error = reward[step] + 0.99 * expected[step + 1] - expected[step]
                running = error + 0.94 * running
                advantage[step] = running
            target = advantage + expected
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        choice = torch.distributions.Categorical(logits=policy(seen))
        ratio = (choice.log_prob(action) - old).exp()
        gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        return functional.huber_loss(expected, target) - gain - 0.01 * choice.entropy().mean()

    args = (
        torch.randn(7, 3, 6), torch.randint(0, 4, (7, 3)), torch.randn(7, 3), -torch.rand(7, 3),
    )  # fmt: skip
    return Program(function, args, [*policy.parameters(), *value.parameters()])


@program
def detection_loss() -> Program:
    def area(boxes: Tensor) -> Tensor:
        return (boxes[..., 2:] - boxes[..., :2]).prod(-1)

    def function(logits: Tensor, boxes: Tensor, truth: Tensor, label: Tensor) -> tuple[Tensor, ...]:
        wanted = functional.one_hot(label, 5)[..., 1:].float()
        chance = logits.sigmoid()
        right = chance * wanted + (1 - chance) * (1 - wanted)
        loss = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        focal = ((1 - right) ** 2 * loss).sum() / (label > 0).sum().clamp(min=1)
        low = torch.max(boxes[..., :2], truth[..., :2])
        high = torch.min(boxes[..., 2:], truth[..., 2:])
        shared = (high - low).clamp(0).prod(-1)
        overlap = shared / (area(boxes) + area(truth) - shared)
        found = label > 0
        missed = torch.where(found, 1 - overlap, torch.zeros_like(overlap)).sum()
        return focal, missed, functional.smooth_l1_loss(boxes[found], truth[found])

    corners = torch.rand(2, 3, 6, 2)
    boxes, truth = torch.cat([corners, corners + torch.rand(2, 3, 6, 2) + 0.1], -1)
    args = (variable(3, 6, 4), boxes.clone().requires_grad_(), truth, torch.randint(0, 5, (3, 6)))
    return Program(function, args)


@program
def sampling_of_tokens() -> Program:
    """Temperature, a penalty of repeats, top-k, top-p, and a draw."""

    def function(logits: Tensor, repeated: Tensor) -> tuple[Tensor, Tensor]:
        logits = logits / 0.8
        logits.scatter_add_(1, repeated, -torch.ones(repeated.shape))
        least = logits.topk(5)[0][:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
        ordered, index = logits.sort(descending=True)
        chances = ordered.softmax(-1)
        ordered = ordered.masked_fill(chances.cumsum(-1) - chances > 0.9, -torch.inf)
        chances = torch.empty_like(logits).scatter_(1, index, ordered).softmax(-1)
        return chances, torch.multinomial(chances, 1)

    return Program(function, (torch.randn(3, 20), torch.randint(0, 20, (3, 4))))


@program
def dictionaries_and_graph_breaks() -> Program:
    layer = nn.Linear(4, 3)

    def function(x: Tensor, names: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
        made = {name: layer(x).relu() * (1 + n) for n, name in enumerate(names)}
        print(end="")
        repeats = int(made["a"].detach().sum().item() * 0) + 2
        return {**made, "repeated": made["b"].repeat(1, repeats), "count": repeats, "none": None}

    return Program(function, (variable(5, 4),), list(layer.parameters()))


@program
def features_of_a_hash_grid() -> Program:
    """Corners of a grid's cells are hashed into a table of features, as in radiance fields."""
    table = nn.Parameter(torch.randn(2, 64, 2))
    primes = torch.tensor([1, 2654435761, 805459861])

    def function(points: Tensor) -> Tensor:
        found: list[Tensor] = []
        for level in range(2):
            scaled = points * 4 * 2**level
            cell = scaled.floor().long()
            inside, total = scaled - cell, torch.zeros(points.shape[0], 2)
            for corner in range(8):
                offset = torch.tensor([corner & 1, corner >> 1 & 1, corner >> 2 & 1])
                weight = torch.where(offset.bool(), inside, 1 - inside).prod(-1, keepdim=True)
                x, y, z = ((cell + offset) * primes).unbind(-1)
                total = total + weight * table[level][(x ^ y ^ z) % 64]
            found.append(total)
        return torch.cat(found, -1)

    return Program(function, (torch.rand(9, 3),), [table])


@program
def spline_of_a_flow() -> Program:
    """Rational quadratic splines: each number searches for its bin."""

    def function(x: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        widths, heights = given[..., :4].softmax(-1) * 6, given[..., 4:8].softmax(-1) * 6
        slopes = functional.pad(functional.softplus(given[..., 8:]), (1, 1), value=1.0)
        lefts = functional.pad(widths.cumsum(-1), (1, 0)) - 3
        lows = functional.pad(heights.cumsum(-1), (1, 0)) - 3
        number = (torch.searchsorted(lefts, x[..., None]) - 1).clamp(0, 3)
        width, height, left, low, slope, after = (
            values.gather(-1, at)[..., 0]
            for values, at in (
                (widths, number), (heights, number), (lefts, number), (lows, number),
                (slopes, number), (slopes, number + 1),
            )
        )  # fmt: skip
        share, rise = (x - left) / width, height / width
        bend = share * (1 - share)
        below = rise + (after + slope - 2 * rise) * bend
        made = low + height * (rise * share**2 + slope * bend) / below
        steep = after * share**2 + 2 * rise * bend + slope * (1 - share) ** 2
        return made, (rise**2 * steep).log() - 2 * below.log()

    return Program(function, (torch.rand(6, 2) * 5 - 2.5, variable(6, 2, 11)))


@program
def tags_of_a_sequence() -> Program:
    """The loss of a conditional random field: a sum over all paths of tags, in logarithms."""
    scores = nn.Linear(5, 4)
    moves = nn.Parameter(torch.randn(4, 4))

    def function(x: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        emitted = scores(x)
        total = emitted[:, 0]
        path = emitted[:, 0].gather(1, tags[:, :1])[:, 0]
        for time in range(1, x.shape[1]):
            there = torch.logsumexp(total[:, :, None] + moves + emitted[:, time, None], 1)
            total = torch.where(mask[:, time, None], there, total)
            step = emitted[:, time].gather(1, tags[:, time : time + 1])[:, 0]
            path = path + mask[:, time] * (step + moves[tags[:, time - 1], tags[:, time]])
        return (total.logsumexp(1) - path).mean()

    mask = torch.arange(6) < torch.tensor([[6], [3], [4]])
    args = (variable(3, 6, 5), torch.randint(0, 4, (3, 6)), mask)
    return Program(function, args, [*scores.parameters(), moves])
