# SPDX-License-Identifier: Apache-2.0
"""Programs of `torch.export` as modules; what `explain` finds of a module of PyTorch."""

import numpy as np
import pytest
import torch

import ingot
from ingot.frontends.torch.exported import module_of
from ingot.frontends.torch.graphs import compiled_graphs, recorded_graphs


class _Called(torch.nn.Module):
    def __init__(self, function, layer=None):
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, x):
        return self.function(self.layer, x)


def _resized(mode):
    return _Called(lambda _, x: torch.nn.functional.interpolate(x, scale_factor=2.0, mode=mode))


IMAGE = torch.linspace(-2, 2, 2 * 6 * 5).sin().reshape(1, 2, 6, 5)
ROWS = torch.linspace(-2, 2, 6 * 2 * 3).sin().reshape(6, 2, 3)
PROGRAMS = {
    "nearest": (_resized("nearest"), IMAGE, "broadcast"),
    "bilinear": (_resized("bilinear"), IMAGE, "gather"),
    "GRU": (_Called(lambda layer, x: layer(x)[0], torch.nn.GRU(3, 4)), ROWS, "while"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_layers_are_compiled_as_in_a_graph_of_torch_compile(name):
    model, x, opcode = PROGRAMS[name]
    module = module_of(torch.export.export(model.eval(), (x,)))
    assert opcode in {instruction.opcode for instruction in module.entry.instructions}
    got = ingot.compile(module)(x.numpy())
    np.testing.assert_allclose(got, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_graphs_are_recorded_where_they_are_compiled():
    torch._dynamo.reset()

    def double(x):
        return x * 2

    with recorded_graphs() as found:
        compiled = torch.compile(double, backend="ingot")
        compiled(torch.ones(3))
        assert len(found) == 1
        compiled(torch.ones(3))  # is compiled already
    torch.compile(lambda x: x + 1, backend="ingot")(torch.ones(3))
    (graph,) = found
    assert graph in compiled_graphs()


def test_explain_shows_the_programs_of_one_call():
    torch._dynamo.reset()
    other = torch.compile(lambda x: x.sin(), backend="ingot")
    other(torch.ones(3))
    report = ingot.explain(_Called(lambda _, x: x.exp() * 2), torch.ones(3))
    assert len(report.programs) == 1
    assert "exponential" in str(report)
    assert "sine" not in str(report)
