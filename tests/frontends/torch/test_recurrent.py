# SPDX-License-Identifier: Apache-2.0
"""Training of recurrent layers: each is a loop over time, and so is its gradient."""

import pytest
import torch
from tests.frontends.torch.compare import assert_results
from torch import nn

from ingot.frontends.torch.graphs import compiled_graphs
from ingot.support.flags import override_values


@pytest.fixture(autouse=True)
def _allowed():
    torch._dynamo.reset()
    # Set, not patched: a patch reads the value first, which PyTorch hides after some of its own.
    torch._dynamo.config.allow_rnn = True
    with override_values({"strict": True}):
        yield
    torch._dynamo.config.allow_rnn = False


def _step(run, layer, x):
    """Return results and gradients of a training step that draws the same random numbers."""
    torch.manual_seed(5)
    x = x.clone().requires_grad_()
    out, state = run(x)
    states = state if isinstance(state, tuple) else (state,)
    total = sum((item * item).sum() for item in (out, *states))
    return [out, *states, *torch.autograd.grad(total, [x, *layer.parameters()])]


def _layer(kind, *sizes, **options):
    torch.manual_seed(1)
    return kind(*sizes, **options)


LAYERS = {
    "LSTM": lambda: _layer(nn.LSTM, 3, 4),
    "LSTM, projected": lambda: _layer(nn.LSTM, 3, 4, proj_size=2, bias=False),
    "GRU": lambda: _layer(nn.GRU, 3, 4, batch_first=True),
    "RNN": lambda: _layer(nn.RNN, 3, 4, nonlinearity="relu"),
    "RNN, both ways": lambda: _layer(nn.RNN, 3, 4, 2, bidirectional=True, dropout=0.4),
}


@pytest.mark.parametrize("name", LAYERS)
def test_training(name):
    layer = LAYERS[name]()
    x = torch.linspace(-2, 2, 6 * 5 * 3).sin().reshape(6, 5, 3)
    compiled = torch.compile(layer, backend="ingot", fullgraph=True)
    found = [_step(run, layer, x) for run in (compiled, layer)]
    assert_results(*found, strides=False, rtol=1e-4, atol=1e-5)
    for graph in compiled_graphs()[-2:]:
        (executable,) = graph.executables
        assert " while(" in executable.as_text("hlo_before")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_training_of_several_layers_in_both_directions_with_dropout(kind):
    layer = _layer(kind, 3, 4, 3, bidirectional=True, dropout=0.3)
    x = torch.linspace(-2, 2, 6 * 5 * 3).sin().reshape(6, 5, 3)
    compiled = torch.compile(layer, backend="ingot", fullgraph=True)
    found = [_step(run, layer, x) for run in (compiled, layer)]
    assert_results(*found, strides=False, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_packed_sequences_run():
    layer = _layer(nn.LSTM, 3, 4)

    def run(x):
        packed = nn.utils.rnn.pack_padded_sequence(x * 2, torch.tensor([6, 4, 4, 2, 1]))
        out, state = layer(packed)
        return nn.utils.rnn.pad_packed_sequence(out)[0] + 1, state

    x = torch.linspace(-2, 2, 6 * 5 * 3).sin().reshape(6, 5, 3)
    with override_values({"strict": False}):
        compiled = torch.compile(run, backend="ingot")
        found = [_step(run, layer, x) for run in (compiled, run)]
    assert_results(*found, strides=False, rtol=1e-4, atol=1e-5)
