# SPDX-License-Identifier: Apache-2.0
"""Quantized weights and activations as torchao and PyTorch's export quantization write them."""

import importlib

import pytest
import torch
from tests.frontends.torch.compare import assert_same

from ingot.frontends.torch.graphs import compiled_graphs
from ingot.frontends.torch.lowering.linalg_ops import packed_weights
from ingot.support.flags import override_values

importlib.import_module("torch.ao.quantization.fx._decomposed")  # defines the ops
OPS = torch.ops.quantized_decomposed
ATEN = torch.ops.aten


@pytest.fixture(autouse=True)
def _strict():
    with override_values({"strict": True}):
        yield


def _spread(*sizes, scale=1.0):
    count = torch.Size(sizes).numel()
    return (torch.linspace(0, 50, count).sin() * scale).reshape(sizes)


# ---- four bits


@pytest.mark.parametrize("rows", [16, 32, 48, 64, 160])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_products_with_weights_of_four_bits(rows, kind):
    depth, group = 64, 32
    weight = (torch.arange(rows * depth).reshape(rows, depth) * 7 % 16).to(torch.int32)
    packed = ATEN._convert_weight_to_int4pack_for_cpu(weight, 1)
    scales = torch.stack([_spread(2, rows) + 1.5, _spread(2, rows).flip(1)], 2).to(kind)

    def linear(x, packed, scales):
        return ATEN._weight_int4pack_mm_for_cpu(x * 2, packed, group, scales) + 1

    tolerance = 1e-4 if kind == torch.float32 else 2e-2
    assert_same(linear, _spread(3, depth).to(kind), packed, scales, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rows", [16, 32, 48, 128])
def test_weights_are_packed_as_by_pytorch(rows):
    weight = (torch.arange(rows * 32).reshape(rows, 32) * 7 % 16).to(torch.int32)
    assert_same(lambda x: ATEN._convert_weight_to_int4pack_for_cpu(x, 1), weight)


@pytest.mark.parametrize("block", [(64, True), (32, False)])
def test_what_other_processors_pack_is_unpacked(block, monkeypatch):
    """The layouts of AVX-512, and of processors without AVX2."""
    monkeypatch.setattr(packed_weights, "_block", lambda: block)
    weight = (torch.arange(96 * 32).reshape(96, 32) * 7 % 16).to(torch.int32)

    def linear(x, w, scales):
        packed = ATEN._convert_weight_to_int4pack_for_cpu(w, 1)
        return ATEN._weight_int4pack_mm_for_cpu(x, packed, 32, scales)

    torch._dynamo.reset()
    x, scales = _spread(3, 32), torch.stack([torch.ones(1, 96), torch.zeros(1, 96)], 2)
    got = torch.compile(linear, backend="ingot", fullgraph=True)(x, weight, scales)
    torch.testing.assert_close(got, x @ (weight - 8).float().t(), rtol=1e-4, atol=1e-4)


# ---- eight bits


def _weight_only(x, w, scales):
    return ATEN._weight_int8pack_mm(x, w, scales).relu()


def _weight_only_as_torchao(x, w, scales):
    """A linear layer of a dequantized weight."""
    return torch.nn.functional.linear(x, w.to(x.dtype) * scales.unsqueeze(1))


def _dynamic(x, w, scales):
    """Per-token activations, per-channel weights, a product of integers."""
    given, zero = OPS.choose_qparams_per_token(x, torch.int8)
    quantized = OPS.quantize_per_token(x, given, zero, -128, 127, torch.int8)
    total = torch._int_mm(quantized, w.t())
    return total.float() * given * scales


@pytest.mark.parametrize("function", [_weight_only, _weight_only_as_torchao, _dynamic])
@pytest.mark.parametrize("dynamic", [False, True])
def test_products_with_weights_of_eight_bits(function, dynamic):
    w = (torch.arange(24 * 32).reshape(24, 32) * 37 % 255 - 127).to(torch.int8)
    args = (_spread(20, 32), w, _spread(24).abs() / 50)
    assert_same(function, *args, dynamic=dynamic, rtol=1e-4, atol=1e-4)


X = torch.cat([_spread(28, scale=3), torch.tensor([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 9.0, -9.0])])
ONE = (torch.tensor([0.05]), torch.tensor([3]))
PER = (torch.tensor([0.1, 0.02, 0.7, 0.05]), torch.tensor([0, 3, -7, 1]))
RANGE = (-128, 127, torch.int8)
FUNCTIONS = {
    "a number": lambda x: OPS.quantize_per_tensor(x, 0.05, 3, *RANGE),
    "a tensor": lambda x: OPS.quantize_per_tensor.tensor(x, *ONE, *RANGE),
    "limits as tensors": lambda x: OPS.quantize_per_tensor.tensor2(
        x, *ONE, torch.tensor(-5), torch.tensor(90), torch.int8
    ),
    "and back": lambda x: OPS.dequantize_per_tensor(
        OPS.quantize_per_tensor(x, 0.05, 3, *RANGE), 0.05, 3, *RANGE
    ),
    "and back, tensors": lambda x: OPS.dequantize_per_tensor.tensor(
        OPS.quantize_per_tensor.tensor(x, *ONE, *RANGE), *ONE, *RANGE, out_dtype=torch.bfloat16
    ),
    "chosen": lambda x: OPS.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8),
    "chosen, positive": lambda x: OPS.choose_qparams.tensor(
        x.abs() + 1, 0, 255, 1e-6, torch.uint8
    ),
    "chosen, zeros": lambda x: OPS.choose_qparams.tensor(x * 0, -128, 127, 1e-6, torch.int8),
    "chosen, symmetric": lambda x: OPS.choose_qparams_symmetric.tensor(
        x, -127, 127, 1e-6, torch.int8
    ),
    "channels": lambda x: OPS.quantize_per_channel(x.reshape(9, 4), *PER, 1, *RANGE),
    "channels, back": lambda x: OPS.dequantize_per_channel(
        OPS.quantize_per_channel(x.reshape(4, 9), *PER, 0, *RANGE), *PER, 0, *RANGE
    ),
    "groups": lambda x: OPS.dequantize_per_channel_group(
        OPS.quantize_per_channel_group(
            x[:32].reshape(2, 16), PER[0].view(2, 2), PER[1].view(2, 2), *RANGE, 8
        ),
        PER[0].view(2, 2), PER[1].view(2, 2), *RANGE, 8, torch.float32,
    ),
    "tokens": lambda x: OPS.choose_qparams_per_token_asymmetric(x.reshape(4, 9), torch.int8),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_quantization_is_one_program(name):
    assert_same(FUNCTIONS[name], X)
    (graph,) = compiled_graphs()[-1:]
    assert not graph.host_ops
    assert len(graph.executables) == 1


SPECIAL = torch.cat([X, torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30])])
FAKE = {
    "tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127),
    "tensors": lambda x: torch.fake_quantize_per_tensor_affine(
        x, torch.tensor(0.05), torch.tensor(3, dtype=torch.int32), 0, 15
    ),
    "channels": lambda x: torch.fake_quantize_per_channel_affine(
        x.reshape(10, 4), PER[0], PER[1].to(torch.int32), 1, -8, 7
    ),
}


@pytest.mark.parametrize("name", FAKE)
def test_fake_quantization_and_its_gradient(name):
    assert_same(FAKE[name], SPECIAL.clone().requires_grad_(), grad=True)
