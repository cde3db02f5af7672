# SPDX-License-Identifier: Apache-2.0
"""Random numbers are those of PyTorch's generator, in eager's order, in one program."""

import random

import pytest
import torch
from tests.frontends.torch.compare import assert_results, assert_same
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ingot.frontends.torch.graphs import compiled_graphs

pytestmark = pytest.mark.filterwarnings("ignore::ingot.IngotWarning")

X = torch.linspace(-2, 3, 60).reshape(3, 4, 5)

DRAWS = {
    "rand_like": lambda x: torch.rand_like(x.sin()) * x,
    "randn_like": lambda x: torch.randn_like(x.cos().transpose(0, 1)) + 1,
    "randint_like": lambda x: torch.randint_like(x * 2, 3, 9) + torch.randint_like(x * 3, 4),
    "rand": lambda x: torch.rand(x.shape[0], 2) + torch.randn(2) + torch.randint(3, (2,)),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * (x * 2).bernoulli(0.3),
    "bernoulli of f64": lambda x: torch.bernoulli(x.double().sigmoid().mT) + torch.rand(()),
    "bernoulli of bf16": lambda x: torch.bernoulli(x.bfloat16().sigmoid()) + torch.rand(()),
    "in place": lambda x: [
        x.clone().uniform_(1, 2),
        x.clone().normal_(1, 3),
        x.clone().exponential_(2),
        x.clone().geometric_(0.3),
        x.clone().cauchy_(),
        x.clone().log_normal_(),
        x.clone().bernoulli_(0.4),
    ],
    "in place, argument": lambda x: x.uniform_().sin(),
    "in place, transposed": lambda x: (x.t() if x.dim() < 3 else x.mT).clone().uniform_() * 2,
    "in place, expanded": lambda x: (x[:1].expand(4, 4, 5) * 1.0).uniform_() + 1,
    "normal": lambda x: torch.normal(x, 1.5) + torch.normal(0.5, x.abs()),
    "permutation": lambda x: x.flatten()[torch.randperm(60)] * 2,
    "multinomial": lambda x: torch.multinomial(x.flatten(1).exp(), 7, replacement=True) + 1,
    "poisson": lambda x: torch.poisson(x.abs()) + torch.rand_like(x),
    "order": lambda x: torch.rand(3, 1, 1) * x.sum() + torch.bernoulli(x.sigmoid()) + torch.rand(5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_eager(name):
    assert_same(DRAWS[name], X)


DROPOUTS = {
    "dropout": lambda x: functional.dropout(x.sin(), 0.3) * 2,
    "dropout, none": lambda x: functional.dropout(x, 0.0),
    "dropout, evaluation": lambda x: functional.dropout(x, 0.3, training=False) + 1,
    "dropout1d": lambda x: functional.dropout1d(x.cos(), 0.5),
    "dropout2d": lambda x: functional.dropout2d(x[None].cos(), 0.5),
    "dropout3d": lambda x: functional.dropout3d(x[None, None].cos(), 0.5),
    "alpha_dropout": lambda x: functional.alpha_dropout(x, 0.4, training=True),
    "feature_alpha_dropout": lambda x: functional.feature_alpha_dropout(x, 0.4, training=True),
    "rrelu": lambda x: functional.rrelu(x, training=True),
    "gumbel_softmax": lambda x: functional.gumbel_softmax(x, dim=-1),
    "twice": lambda x: functional.dropout(functional.dropout(x, 0.5).exp(), 0.5),
    "in place": lambda x: functional.dropout(x * 1.0, 0.5, inplace=True),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_and_its_gradient_are_those_of_eager(name):
    assert_same(DROPOUTS[name], X.clone().requires_grad_(), grad=True)


EQUAL_DRAWS = {
    "randn_like": torch.randn_like,
    "randint_like": lambda x: torch.randint_like(x, 9),
    "rand_like": torch.rand_like,
    "normal": lambda x: torch.zeros_like(x).normal_(),
    "exponential": lambda x: torch.empty_like(x).exponential_(),
    "log normal": lambda x: torch.empty_like(x).log_normal_(),
    "geometric": lambda x: torch.empty_like(x).geometric_(0.3),
    "cauchy": lambda x: torch.empty_like(x).cauchy_(),
    "bernoulli": lambda x: torch.empty_like(x).bernoulli_(0.3),
    "gumbel_softmax": functional.gumbel_softmax,
    "rrelu": lambda x: functional.rrelu(x, training=True),
}


@pytest.mark.parametrize("name", EQUAL_DRAWS)
def test_equal_draws_of_a_training_step_are_draws_of_their_own(name):
    """PyTorch's partitioner takes some of them for one value, as two augmentations of an image."""
    draw = EQUAL_DRAWS[name]

    def pair(x):
        return (x + draw(x)).sin() - 2 * (x + draw(x))

    assert_same(pair, X.clone().requires_grad_(), grad=True)
    assert_same(pair, X.clone().requires_grad_(), grad=True, dynamic=True)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("rate", [0.1, 0.35, 1.0])
def test_bits_of_dropout_are_those_of_eager(kind, rate):
    """The scale is rounded to the type before it meets the values, and so in the gradient."""
    torch._dynamo.reset()
    x = torch.linspace(-3, 3, 1001).to(kind)
    x[:3] = torch.tensor([torch.inf, torch.nan, -0.0])
    runs = []
    for call in (functional.dropout, torch.compile(functional.dropout, backend="ingot")):
        torch.manual_seed(5)
        given = x.clone().requires_grad_()
        made = call(given, rate)
        runs.append((made.detach(), *torch.autograd.grad(made, given, x.flip(0))))
    torch.testing.assert_close(*runs, rtol=0, atol=0, equal_nan=True)


def test_draws_of_a_symbolic_size_are_those_of_eager():
    def draw(x):
        return functional.dropout(x.sin(), 0.4).sum(0) + torch.rand(x.shape[1])

    torch._dynamo.reset()
    for rows in (2, 3, 7):
        assert_same(draw, torch.ones(rows, rows + 2), dynamic=True, fresh=False)


def test_draws_do_not_cut_the_program():
    """The draws of a graph come first, and what is left is one program, in both directions."""
    torch._dynamo.reset()
    model = nn.Sequential(*(nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.5)) for _ in range(3)))
    run = torch.compile(lambda x: model(x) * torch.rand_like(x), backend="ingot")
    run(torch.ones(4, 5)).sum().backward()
    for graph in compiled_graphs()[-2:]:
        assert len(graph.executables) == 1
        assert all(
            name.startswith(("aten.empty", "aten.bernoulli", "aten.rand"))
            for name, _ in graph.host_ops
        )


CHECKPOINTED = {
    "dropout": lambda x: functional.dropout(x.sin(), 0.3) * x,
    "like a value": lambda x: x.sin() * torch.randn_like(x * 2),
    "like an argument": lambda x: x.sin() * torch.rand_like(x),
    "both": lambda x: (
        functional.dropout(x.exp(), 0.5) * torch.bernoulli(torch.sigmoid(x.detach()), 0.4)
    ),
    "in place": lambda x: x.cos() * torch.empty_like(x).uniform_(0, 2),
    "of a size": lambda x: x.exp() * torch.rand(x.shape[-1]) * torch.randperm(x.shape[-1]),
}


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_checkpointed_layers_draw_again_what_they_drew(name):
    def program(x):
        for _ in range(2):
            x = checkpoint(CHECKPOINTED[name], x, use_reentrant=False)
        return x

    assert_same(program, X.clone().requires_grad_(), grad=True)
    for graph in compiled_graphs()[-2:]:
        assert len(graph.executables) == 1, "a draw cuts the program"
        assert [op for op, why in graph.host_ops if why] == []


def test_checkpointed_batch_norm_and_dropout():
    """The running statistics are written once, by the forward pass, as without a checkpoint."""
    runs = []
    for is_compiled in (True, False):
        torch._dynamo.reset()
        torch.manual_seed(2)
        layers = [nn.Linear(6, 6), nn.GELU(), nn.Dropout(0.2), nn.BatchNorm1d(6, momentum=0.3)]
        model = nn.Sequential(*layers)

        def program(x, model=model, is_compiled=is_compiled):
            for _ in range(2):
                again = checkpoint(model, x, use_reentrant=False) if is_compiled else model(x)
                x = x + again
            return x.square().sum()

        run = torch.compile(program, backend="ingot", fullgraph=True) if is_compiled else program
        x = X.clone().reshape(-1, 6).requires_grad_()
        loss = run(x)
        runs.append([loss, *torch.autograd.grad(loss, [x, *model.parameters()]), *model.buffers()])
    assert_results(*runs, rtol=1e-4, atol=1e-5)


def _trained(build, compiled):
    torch.manual_seed(11)
    model, target = build(), torch.linspace(-1, 1, 16 * 8).reshape(16, 8)
    inputs = torch.randn(16, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def loss_of(x):
        return ((model(x) - target) ** 2).mean()

    run = torch.compile(loss_of, backend="ingot") if compiled else loss_of
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = run(inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), torch.get_rng_state()


def _mlp():
    return nn.Sequential(
        nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 8), nn.Dropout(0.1)
    )


class _Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)

    def forward(self, x):
        return self.layer(x.reshape(4, 4, 8)).reshape(16, 8)


@pytest.mark.parametrize("build", [_mlp, _Attention], ids=["mlp", "attention"])
def test_losses_of_training_with_dropout_are_those_of_eager(build):
    torch._dynamo.reset()
    (want, state), (got, other) = _trained(build, compiled=False), _trained(build, compiled=True)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert torch.equal(other, state)
    assert want[-1] < want[0]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64])
def test_floats_that_python_draws(kind):
    def function(x):
        return (x + 1) * random.uniform(0, 1)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="ingot", fullgraph=True)
    x, results = X.to(kind), []
    for run in (compiled, function):
        random.seed(3)
        results.append([run(x), run(x)])
    assert_results(*results)
