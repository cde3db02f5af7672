# SPDX-License-Identifier: Apache-2.0
"""Which graphs a call compiled: what `explain` shows of a module of PyTorch."""

import torch

import ingot
from ingot.frontends.torch.graphs import compiled_graphs, recorded_graphs


class _Exponential(torch.nn.Module):
    def forward(self, x):
        return x.exp() * 2


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
    report = ingot.explain(_Exponential(), torch.ones(3))
    assert len(report.programs) == 1
    assert "exponential" in str(report)
    assert "sine" not in str(report)
