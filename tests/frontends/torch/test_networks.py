# SPDX-License-Identifier: Apache-2.0
"""Ops of neural networks beside eager: values, sizes, strides, gradients, NaN, dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontends.torch.compare import assert_same
from torch import Tensor
from torch.nn import functional

from ingot.torch import compiled_graphs


def _random(*dims: int, kind: torch.dtype = torch.float64, grad: bool = True) -> Tensor:
    return torch.randn(dims, dtype=kind, requires_grad=grad)


def _last(*dims: int) -> Tensor:
    x = torch.randn(dims, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    return x.requires_grad_(True)


def _with_nan(*dims: int) -> Tensor:
    x = torch.randn(dims, dtype=torch.float64)
    x.view(-1)[::7] = float("nan")
    x.view(-1)[3::11] = float("-inf")
    return x


def _call(name: str, **keywords: Any) -> Callable[..., Any]:
    return lambda *args: getattr(functional, name)(*args, **keywords)


CONVOLUTIONS = {
    "1d": (_call("conv1d", padding=2, stride=3), (2, 4, 13), (6, 4, 3)),
    "2d_odd": (_call("conv2d", stride=(2, 1), padding=(0, 2)), (2, 3, 7, 5), (5, 3, 3, 2)),
    "2d_groups": (_call("conv2d", groups=2, padding=1), (2, 4, 7, 7), (6, 2, 3, 3)),
    "2d_depthwise": (_call("conv2d", groups=4, padding=2), (2, 4, 7, 7), (8, 1, 5, 5)),
    "2d_dilated": (_call("conv2d", dilation=2, padding=2), (1, 3, 9, 9), (4, 3, 3, 3)),
    "3d": (_call("conv3d", padding=1, stride=2), (1, 2, 5, 6, 7), (3, 2, 3, 3, 3)),
    "transposed": (
        _call("conv_transpose2d", stride=2, padding=1, output_padding=1),
        (2, 4, 5, 5),
        (4, 3, 3, 3),
    ),
    "transposed_padded_by_more_than_the_stride": (
        _call("conv_transpose2d", dilation=2, output_padding=1),
        (2, 3, 4, 4),
        (3, 3, 3, 3),
    ),
    "transposed_groups": (
        _call("conv_transpose2d", stride=3, groups=2, dilation=2),
        (2, 4, 4, 3),
        (4, 3, 2, 3),
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_their_gradients(name: str) -> None:
    function, image, weight = CONVOLUTIONS[name]
    outputs = weight[1] * 2 if name == "transposed_groups" else weight[0]
    bias = _random(3 if name == "transposed" else outputs)
    assert_same(function, _random(*image), _random(*weight), bias, grad=True)


def test_convolution_of_channels_last_gives_channels_last() -> None:
    function = _call("conv2d", padding=1)
    assert_same(function, _last(2, 3, 7, 5), _last(4, 3, 3, 3), grad=True)


def test_convolution_with_an_open_batch() -> None:
    function = _call("conv2d", padding=1, stride=2)
    assert_same(function, _random(5, 3, 8, 8), _random(4, 3, 3, 3), dynamic=True, grad=True)


POOLS = {
    "max2d": _call("max_pool2d", kernel_size=3, stride=2, padding=1),
    "max2d_apart": _call("max_pool2d", kernel_size=2),
    "max2d_rows": _call("max_pool2d", kernel_size=(1, 2)),
    "max2d_columns": _call("max_pool2d", kernel_size=(3, 1), stride=1),
    "max2d_ceil": _call("max_pool2d", kernel_size=2, stride=2, ceil_mode=True),
    "max2d_far": _call("max_pool2d", kernel_size=2, stride=3),
    "max2d_long": _call("max_pool2d", kernel_size=(5, 4), stride=(2, 3), padding=2),
    "max2d_dilated": _call("max_pool2d", kernel_size=3, dilation=2, stride=1),
    "max2d_large": lambda x: functional.max_pool2d(
        x, (4, 5), (2, 3), (2, 1), ceil_mode=True, return_indices=True
    ),
    "max2d_indices": lambda x: functional.max_pool2d(x, 3, 2, return_indices=True),
    "avg2d": _call("avg_pool2d", kernel_size=3, stride=2, padding=1),
    "avg2d_inside": _call(
        "avg_pool2d", kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False
    ),
    "avg2d_ceil": _call("avg_pool2d", kernel_size=3, stride=2, padding=1, ceil_mode=True),
    "avg2d_far": _call("avg_pool2d", kernel_size=2, stride=3),
    "avg2d_long": _call("avg_pool2d", kernel_size=(5, 4), stride=(2, 3), padding=2),
    "avg2d_divisor": _call("avg_pool2d", kernel_size=(2, 3), divisor_override=5),
    "adaptive_avg": _call("adaptive_avg_pool2d", output_size=(3, 4)),
    "adaptive_avg_one": _call("adaptive_avg_pool2d", output_size=1),
    "adaptive_max": lambda x: functional.adaptive_max_pool2d(x, (3, 4), return_indices=True),
    "adaptive_max_even": lambda x: functional.adaptive_max_pool2d(x, x.shape[2:], True),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools_and_their_gradients(name: str) -> None:
    assert_same(POOLS[name], _random(2, 3, 7, 9), grad=True)


def test_max_pools_find_the_last_nan_and_the_first_of_equal_elements() -> None:
    for name in ("max2d_indices", "max2d_large", "adaptive_max"):
        assert_same(POOLS[name], _with_nan(2, 3, 7, 9))
        assert_same(POOLS[name], torch.full((2, 3, 7, 9), -float("inf")))
        assert_same(POOLS[name], torch.zeros(2, 3, 7, 9))


def _batch_norm(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor) -> Tensor:
    return functional.batch_norm(x, mean, variance, weight, None, training=True)


def test_batch_norm_updates_its_statistics() -> None:
    mean, variance = torch.zeros(3).double(), torch.ones(3).double()
    assert_same(_batch_norm, _random(4, 3, 5), mean, variance, _random(3), grad=True)


def test_batch_norm_of_halves_keeps_statistics_of_halves() -> None:
    mean, variance = torch.zeros(3).bfloat16(), torch.ones(3).bfloat16()
    x, weight = torch.randn(4, 3, 5).bfloat16(), torch.ones(3).bfloat16()
    assert_same(_batch_norm, x, mean, variance, weight, rtol=0.02, atol=0.02)


NORMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "batch": (lambda x, w: functional.batch_norm(x, None, None, w, w, True), (5, 3, 4), (3,)),
    "layer": (lambda x, w: functional.layer_norm(x, (4, 5), w, w), (3, 4, 5), (4, 5)),
    "group": (lambda x, w: functional.group_norm(x, 3, w, w), (2, 6, 5, 4), (6,)),
    "instance": (lambda x, w: functional.instance_norm(x, weight=w), (2, 3, 5, 4), (3,)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_and_their_gradients(name: str) -> None:
    function, dims, weights = NORMS[name]
    assert_same(function, _random(*dims), _random(*weights), grad=True)


def _attention(**keywords: Any) -> Callable[..., Tensor]:
    def function(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **keywords)

    return function


def _heads(heads: int, length: int) -> Tensor:
    return _random(2, heads, length, 8)


def test_attention_and_its_gradients() -> None:
    assert_same(_attention(), _heads(3, 5), _heads(3, 7), _heads(3, 7), grad=True)
    causal = _attention(is_causal=True, scale=0.5)
    assert_same(causal, _heads(3, 7), _heads(3, 7), _heads(3, 7), grad=True)
    shared = _attention(enable_gqa=True)
    assert_same(shared, _heads(4, 5), _heads(2, 7), _heads(2, 7), grad=True)


def test_attention_is_compiled_though_pytorch_marks_it_as_random() -> None:
    compiled = torch.compile(_attention(), backend="ingot", dynamic=False)
    compiled(_heads(3, 5), _heads(3, 5), _heads(3, 5)).sum()
    assert compiled_graphs()[-1].host_ops == ()


def test_attention_with_masks() -> None:
    """A row without a key gives zeros."""
    operands = _heads(3, 5), _heads(3, 7), _heads(3, 7)
    assert_same(_attention(), *operands, torch.randn(5, 7).double(), grad=True)
    mask = torch.rand(2, 1, 5, 7) > 0.4
    mask[:, :, 2] = False
    assert_same(_attention(), *operands, mask, grad=True)


UPSAMPLINGS = {
    "nearest": {"mode": "nearest", "scale_factor": 2.0},
    "nearest_odd": {"mode": "nearest", "size": (5, 11)},
    "nearest_exact": {"mode": "nearest-exact", "size": (5, 11)},
    "bilinear": {"mode": "bilinear", "scale_factor": 2.0},
    "bilinear_corners": {"mode": "bilinear", "size": (11, 4), "align_corners": True},
    "bilinear_factor": {"mode": "bilinear", "scale_factor": 1.7, "recompute_scale_factor": False},
    "bicubic": {"mode": "bicubic", "size": (9, 4)},
    "bilinear_smooth": {"mode": "bilinear", "size": (3, 4), "antialias": True},
    "bicubic_smooth": {"mode": "bicubic", "size": (3, 11), "antialias": True},
}


@pytest.mark.parametrize("name", UPSAMPLINGS)
def test_resampling_and_its_gradients(name: str) -> None:
    assert_same(_call("interpolate", **UPSAMPLINGS[name]), _random(2, 3, 7, 5), grad=True)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sampling_at_a_grid_and_its_gradients(mode: str, padding: str) -> None:
    function = _call("grid_sample", mode=mode, padding_mode=padding, align_corners=False)
    assert_same(function, _random(2, 3, 5, 6), _random(2, 4, 3, 2), grad=True)


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
@pytest.mark.parametrize(
    "pad", [(3, 1, 0, 2), (-1, 2, 3, -2), (-2, -1, 0, 0), (4, 4, 3, 3)], ids=str
)
def test_padding_by_elements_and_its_gradient(pad: tuple[int, ...], mode: str) -> None:
    function = _call("pad", pad=pad, mode=mode)
    assert_same(function, _random(2, 3, 4, 5), grad=True)
    assert all(not why for graph in compiled_graphs()[-2:] for _, why in graph.host_ops)


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
def test_padding_by_elements_of_any_number(mode: str) -> None:
    def padded(x: Tensor, before: int, behind: int) -> Tensor:
        pad = (before, behind) * (x.dim() - 2)
        return functional.pad(x, pad, mode=mode).sin()

    for sizes, numbers in (((2, 3, 7), (2, 1)), ((1, 2, 4, 5, 6), (3, 2))):
        assert_same(padded, _random(*sizes), *numbers, grad=True, dynamic=True)
    assert_same(padded, torch.arange(24).reshape(2, 3, 4), 2, 3)
    assert_same(padded, torch.randn(2, 3, 4, dtype=torch.complex64), 2, 3)
    nearest = torch.randn(2, 3, 7, 9).to(memory_format=torch.channels_last).bfloat16()
    assert_same(padded, nearest.requires_grad_(), 2, 3, grad=True, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dim", [0, 2])
def test_weights_with_a_norm_of_their_own(kind: torch.dtype, dim: int) -> None:
    def function(v: Tensor, g: Tensor) -> Tensor:
        return torch._weight_norm(v, g, dim) * 2

    v = torch.randn(4, 3, 5)
    g = torch.linspace(0.5, 2, v.shape[dim]).reshape([-1 if i == dim else 1 for i in range(3)])
    given = [x.to(kind).requires_grad_() for x in (v, g)]
    near = 1e-4 if kind is torch.float32 else 2e-2
    if kind is torch.float16:  # PyTorch's kernel refuses its own f32 norms
        assert_same(function, *given, rtol=near, atol=near)
    else:
        assert_same(function, *given, grad=True, rtol=near, atol=near)
    assert all(not why for graph in compiled_graphs()[-2:] for _, why in graph.host_ops)


@pytest.mark.parametrize("masked", ["not", "keys", "pairs"])
def test_encoder_layer_of_inference(masked: str) -> None:
    """In evaluation mode the layer is one op, `_transformer_encoder_layer_fwd`."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    masks: dict[str, Tensor] = {}
    if masked == "keys":
        masks["src_key_padding_mask"] = torch.arange(5) >= torch.tensor([[3], [5]])
    if masked == "pairs":
        masks["src_mask"] = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    with torch.no_grad():
        assert_same(lambda x: layer(x, **masks), torch.randn(2, 5, 16), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(2, 3), (3, 5), (4, 9), (5, 1)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_adaptive_windows_of_equal_elements_and_nan(size, kind):
    """The first of equal elements by rows, the last NaN; also where windows lie side by side."""
    x = torch.randint(0, 3, (2, 2, 8, 9)).to(kind)
    x.view(-1)[::17] = float("nan")
    x[:, :, 5:, 6:] = float("-inf")
    x.requires_grad_(True)
    assert_same(lambda x: functional.adaptive_max_pool2d(x, size, return_indices=True), x)
    assert_same(lambda x: functional.adaptive_max_pool2d(x, size), x)
    assert_same(lambda x: functional.adaptive_avg_pool2d(x, size), x, grad=True)
    y = torch.randn(2, 8, 9, dtype=torch.float64, requires_grad=True)
    for pool in (functional.adaptive_avg_pool2d, functional.adaptive_max_pool2d):
        assert_same(lambda x, pool=pool: pool(x, size), y, grad=True)


def test_adaptive_windows_side_by_side_are_windows():
    """No element is looked up: a maximum took 10 times as long as eager's."""
    torch._dynamo.reset()
    x = torch.randn(2, 3, 8, 9)
    for pool in (functional.adaptive_avg_pool2d, functional.adaptive_max_pool2d):
        torch.compile(lambda x, pool=pool: pool(x, (4, 3)), backend="ingot")(x)
        (executable,) = compiled_graphs()[-1].executables
        opcodes = {opcode for kernel in executable.kernels for opcode in kernel.opcodes}
        assert "reduce-window" in opcodes
        assert "gather" not in opcodes


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d", "adaptive_avg_pool2d", "linear"])
def test_halves_are_as_close_to_the_exact_result_as_eager(name: str) -> None:
    dims = {"adaptive_avg_pool2d": None, "linear": (7, 9)}.get(name, (5, 5, 3, 3))
    operands = [torch.randn(2, 5, 8, 9).bfloat16()]
    operands.extend([torch.randn(dims).bfloat16()] if dims else [])
    keywords = {"output_size": (3, 4)} if dims is None else {}
    function = _call(name, **keywords)
    exact = function(*(x.double() for x in operands))
    found = torch.compile(function, backend="ingot")(*operands)
    assert found.dtype is torch.bfloat16
    errors = [(x.double() - exact).abs().max() for x in (found, function(*operands))]
    assert errors[0] <= 1.001 * errors[1]


@torch._dynamo.config.patch(allow_rnn=True)
def test_a_trained_lstm_is_compiled_with_its_gradient() -> None:
    torch.manual_seed(0)
    layer = torch.nn.LSTM(4, 3, batch_first=True)
    # The input needs no gradient, as in most programs.
    x = _random(2, 3, 4).float()
    found = []
    for function in (layer, torch.compile(layer, backend="ingot", dynamic=False)):
        layer.zero_grad()
        function(x)[0].square().sum().backward()
        found.append([weight.grad.clone() for weight in layer.parameters()])
    for eager, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, eager)
