# SPDX-License-Identifier: Apache-2.0
"""Windows added where they overlap: the gradient of `unfold`, and `istft`, beside eager."""

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch import Tensor

from ingot.frontends.torch.graphs import recorded_graphs


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("size", "step"), [(4, 2), (5, 2), (2, 3), (7, 1), (3, 3), (40, 1)])
def test_gradients_of_windows(size: int, step: int, dynamic: bool) -> None:
    def windows(x: Tensor) -> Tensor:
        return x.unfold(1, size, step).sin()

    x = torch.randn(2, 41, 3, requires_grad=True)
    assert_same(windows, x, grad=True, dynamic=dynamic)
    half = x.detach().half().requires_grad_()
    assert_same(windows, half, grad=True, dynamic=dynamic, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("frames", "length"), [(5, 20), (5, 11), (1, 4)])
def test_sizes_that_no_windows_have(frames: int, length: int) -> None:
    """Of which the last elements are in no window, or the last windows are cut."""

    def added(x: Tensor) -> Tensor:
        return torch.ops.aten.unfold_backward(x, (2, length), 1, 4, 2)

    x = torch.randn(2, frames, 4, dtype=torch.float64)
    want = torch.zeros(2, 24, dtype=torch.float64)
    for frame in range(frames):
        want[:, 2 * frame : 2 * frame + 4] += x[:, frame]
    torch._dynamo.reset()
    got = torch.compile(added, backend="ingot", fullgraph=True)(x)
    torch.testing.assert_close(got, want[:, :length])


def test_a_spectrogram_and_back_is_a_small_program() -> None:
    window = torch.hann_window(64)

    def filtered(x: Tensor, mask: Tensor) -> Tensor:
        spectrum = torch.stft(x, 64, 16, window=window, return_complex=True)
        return torch.istft(spectrum * mask, 64, 16, window=window, length=x.shape[-1])

    x, mask = torch.randn(3, 500, requires_grad=True), torch.rand(33, 1)
    with recorded_graphs() as graphs:
        assert_same(filtered, x, mask, grad=True, rtol=1e-4, atol=1e-5)
    assert all(len(one.kernels) < 40 for graph in graphs for one in graph.executables)
