# SPDX-License-Identifier: Apache-2.0
"""Images of symbolic height and width: convolutions, pools, resampling, their gradients.

One compilation serves all sizes, and nothing of it runs on the host.
"""

import pytest
import torch
from tests.frontends.torch.compare import assert_runs_same
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional

from ingot.support.flags import override_values

# Parameters have static sizes, whatever `dynamic` says.
W = torch.nn.Parameter(torch.linspace(-1, 1, 4 * 2 * 9).reshape(4, 2, 3, 3))
DEEP = torch.nn.Parameter(torch.linspace(-1, 1, 4 * 9).reshape(4, 1, 3, 3))
LINE = torch.nn.Parameter(torch.linspace(-1, 1, 4 * 2 * 3).reshape(4, 2, 3))


FUNCTIONS = {
    "conv, strided": lambda x: functional.conv2d(x, W, stride=2, padding=1),
    "conv, dilated": lambda x: functional.conv2d(x, W, stride=3, padding=2, dilation=2),
    "conv, groups": lambda x: functional.conv2d(x, DEEP, stride=2, groups=2),
    "conv, transposed": lambda x: functional.conv_transpose2d(
        x, W.view(2, 4, 3, 3), stride=2, padding=1, output_padding=1
    ),
    "max pool": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "max pool, indices": lambda x: functional.max_pool2d(x, 2, return_indices=True),
    "max pool, ceil": lambda x: functional.max_pool2d(x, 2, 2, ceil_mode=True),
    "average pool": lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "adaptive average": lambda x: functional.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive max": lambda x: functional.adaptive_max_pool2d(x, (3, 2), return_indices=True),
    "area": lambda x: functional.interpolate(x, mode="area", size=(5, 12)),
    "area, half": lambda x: functional.interpolate(
        x, size=(x.shape[2] // 2, x.shape[3] + 3), mode="area"
    ),
    "nearest, twice": lambda x: functional.interpolate(x, mode="nearest", scale_factor=2),
    "nearest, thrice": lambda x: functional.interpolate(x, mode="nearest", scale_factor=3),
    "nearest, known": lambda x: functional.interpolate(x, mode="nearest", size=(11, 4)),
    "nearest-exact": lambda x: functional.interpolate(x, mode="nearest-exact", scale_factor=1.5),
    "bilinear, twice": lambda x: functional.interpolate(x, mode="bilinear", scale_factor=2),
    "bilinear, corners": lambda x: functional.interpolate(
        x, mode="bilinear", size=(9, 5), align_corners=True
    ),
    "bicubic": lambda x: functional.interpolate(x, mode="bicubic", scale_factor=0.7),
    "edges repeated": lambda x: functional.pad(x, (1, x.shape[2] // 2, 2, 0), "replicate"),
    "like another": lambda x: functional.interpolate(
        x[:, :, ::2, ::2], size=x.shape[2:], mode="bilinear"
    ),
}
SIZES = [(7, 9), (10, 6), (12, 13)]


def _image(rows, columns, kind=torch.float32):
    count = 2 * 2 * rows * columns
    return torch.linspace(0, 40, count).sin().to(kind).reshape(2, 2, rows, columns)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_compilation_serves_all_images(name):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("ingot")
    compiled = torch.compile(FUNCTIONS[name], backend=counter, dynamic=True, fullgraph=True)
    with override_values({"strict": True}):
        for sizes in SIZES:
            x = _image(*sizes).requires_grad_()
            assert_runs_same(FUNCTIONS[name], compiled, x, grad=True, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 1


FILTERS = {
    "one group": (W, lambda x: functional.conv2d(x, W, stride=2, padding=1).square().sum()),
    "two groups": (DEEP, lambda x: functional.conv2d(x, DEEP, stride=2, groups=2).square().sum()),
    "dilated": (W, lambda x: functional.conv2d(x, W, padding=2, dilation=2).square().sum()),
    "lines": (LINE, lambda x: functional.conv1d(x.flatten(2), LINE, padding=1).square().sum()),
    "transposed": (
        DEEP,
        lambda x: (
            functional.conv_transpose2d(x.repeat(1, 2, 1, 1), DEEP, None, 3, 1, 1, 2).square().sum()
        ),
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_gradients_of_filters(name):
    weight, loss = FILTERS[name]
    torch._dynamo.reset()
    compiled = torch.compile(loss, backend="ingot", dynamic=True, fullgraph=True)
    with override_values({"strict": True}):
        for sizes in SIZES:
            x = _image(*sizes)
            got, want = (torch.autograd.grad(f(x), weight)[0] for f in (compiled, loss))
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_the_last_nan_of_a_window_is_found():
    def pooled(x):
        return functional.adaptive_max_pool2d(x, 2, return_indices=True)

    torch._dynamo.reset()
    compiled = torch.compile(pooled, backend="ingot", dynamic=True, fullgraph=True)
    x = _image(7, 9)
    x[0, 0, 1, 2] = x[0, 0, 2, 1] = x[1, 1, 6, 8] = float("nan")
    x[1, 0, :, :] = -float("inf")
    assert_runs_same(pooled, compiled, x)


def test_the_first_of_equal_elements_of_a_window_is_found():
    def pooled(x):
        return functional.adaptive_max_pool2d(x, 2, return_indices=True)

    torch._dynamo.reset()
    compiled = torch.compile(pooled, backend="ingot", dynamic=True, fullgraph=True)
    x = _image(7, 9).round()
    x[0, 0, 0, 3] = x[0, 0, 2, 0] = x[1, 1, 4, 8] = x[1, 1, 6, 5] = 9
    x[1, 0] = -float("inf")
    assert_runs_same(pooled, compiled, x)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.uint8])
def test_types_of_resampled_images(kind):
    def resized(x):
        return functional.interpolate(x, scale_factor=1.6)

    torch._dynamo.reset()
    compiled = torch.compile(resized, backend="ingot", dynamic=True, fullgraph=True)
    assert_runs_same(resized, compiled, _image(7, 9).mul(100).abs().to(kind))


def test_edges_repeated_by_numbers():
    """TorchDynamo makes integers of a list symbols: here they are dimensions of no array."""
    sizes = [1, 2, 0, 3]

    def padded(x):
        return functional.pad(x, sizes, "replicate")

    torch._dynamo.reset()
    compiled = torch.compile(padded, backend="ingot", dynamic=True, fullgraph=True)
    with override_values({"strict": True}):
        for sizes[:] in ([1, 2, 0, 3], [4, 3, 2, 2], [2, -1, -3, 2]):
            x = _image(7, 9).requires_grad_()
            assert_runs_same(padded, compiled, x, grad=True, rtol=1e-4, atol=1e-5)


def test_attention_with_a_symbolic_number_of_heads():
    def attended(q, k):
        return functional.scaled_dot_product_attention(q, k, k * 2)

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("ingot")
    compiled = torch.compile(attended, backend=counter, dynamic=True, fullgraph=True)
    with override_values({"strict": True}):
        for heads, depth in ((4, 7), (3, 8), (6, 11)):
            q = torch.linspace(-1, 1, 2 * heads * 5 * depth).reshape(2, heads, 5, depth)
            args = (q.requires_grad_(), (q.detach().flip(2) + 0.1).requires_grad_())
            assert_runs_same(attended, compiled, *args, grad=True, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 1
