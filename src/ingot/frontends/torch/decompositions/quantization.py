# SPDX-License-Identifier: Apache-2.0
"""Quantization as arithmetic: decompositions of `quantized_decomposed.*` and `fake_quantize_*`.

torchao and PyTorch's export quantization write these ops between floats and integers. PyTorch
defines most of the first as Python functions of plain ops, which are traced; if those read scales
with `item()`, the functions here compute with the tensors, so that nothing leaves the program.

Source: PyTorch's `torch/ao/quantization/fx/_decomposed.py`,
`aten/src/ATen/native/quantized/cpu/kernels/QuantizedOpKernels.cpp` (`fake_quantize_*`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import torch

_TORCH: Any = torch  # its functions are typed by what they are called with
_ATEN: Any = torch.ops.aten

_MODULE = "torch.ao.quantization.fx._decomposed"
"""The module that defines the ops of `quantized_decomposed`, which exist once it is imported."""

_GIVEN = (
    "quantize_per_channel", "dequantize_per_channel", "quantize_per_token", "dequantize_per_token",
    "dequantize_per_channel_group", "choose_qparams_per_token",
    "choose_qparams_per_token_asymmetric", "_choose_qparams_per_token_asymmetric_impl",
)  # fmt: skip
"""Ops whose definition in PyTorch is traced unchanged."""

_MOST_S64 = 2.0**63


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return a function for each quantizing op that exists in this process."""
    table: dict[Any, Callable[..., Any]] = {
        _ATEN.fake_quantize_per_tensor_affine_cachemask.default: _fake_per_tensor,
        _ATEN._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _fake_if_enabled,
        _ATEN.fake_quantize_per_channel_affine_cachemask.default: _fake_per_channel,
    }
    module = cast("Any", sys.modules.get(_MODULE))
    if module is None:
        return table
    ops: Any = torch.ops.quantized_decomposed
    table[ops.quantize_per_tensor.default] = module.quantize_per_tensor
    table[ops.dequantize_per_tensor.default] = module.dequantize_per_tensor
    for overload in ("tensor", "tensor2"):
        table[getattr(ops.quantize_per_tensor, overload)] = _quantize
        table[getattr(ops.dequantize_per_tensor, overload)] = _dequantize
    table[ops.choose_qparams.tensor] = _choose
    table[ops.choose_qparams_symmetric.tensor] = _choose_symmetric
    table[ops.quantize_per_channel_group.default] = _quantize_groups
    table[ops.convert_element_type.no_fuse] = _converted
    for name in _GIVEN:
        table[getattr(ops, name).default] = getattr(module, name)
    return table


def _converted(x: Any, dtype: Any) -> Any:
    return x.to(dtype)


def _quantize(x: Any, scale: Any, zero_point: Any, low: Any, high: Any, dtype: Any) -> Any:
    """Quantize with one scale, a tensor; PyTorch divides in f64, and multiplies in f32."""
    inverse = (1.0 / scale.reshape(()).to(torch.float64)).to(torch.float32)
    found = _TORCH.round(x.to(torch.float32) * inverse) + zero_point.reshape(()).to(torch.float32)
    return _clamped(found, low, high).to(dtype)


def _clamped(x: Any, low: Any, high: Any) -> Any:
    if isinstance(low, torch.Tensor):
        return _TORCH.clamp(x, low.reshape(()).to(x.dtype), high.reshape(()).to(x.dtype))
    return _TORCH.clamp(x, low, high)


def _dequantize(
    x: Any,
    scale: Any,
    zero_point: Any,
    low: Any,
    high: Any,
    dtype: Any,
    *,
    out_dtype: Any = None,
) -> Any:
    del low, high, dtype
    kind = out_dtype or torch.float32
    shifted = x.to(kind) - zero_point.reshape(()).to(kind)
    return shifted * scale.reshape(()).to(kind)


def _choose(x: Any, low: int, high: int, eps: float, dtype: Any) -> tuple[Any, Any]:
    """Return scale and zero point, f64[1] and s64[1], that span the elements and 0."""
    del dtype
    least, greatest = _TORCH.aminmax(x)
    least, greatest = least.clamp(max=0), greatest.clamp(min=0)
    scale = _at_least((greatest - least) / float(high - low), eps)
    zero = low - _TORCH.round(least / scale).to(torch.int32)
    return scale.double().reshape(1), zero.clamp(low, high).to(torch.int64).reshape(1)


def _choose_symmetric(x: Any, low: int, high: int, eps: float, dtype: Any) -> tuple[Any, Any]:
    least, greatest = _TORCH.aminmax(x)
    reach = _TORCH.maximum(-least.clamp(max=0), greatest.clamp(min=0))
    scale = _at_least(reach / (float(high - low) / 2), eps)
    zero = 128 if dtype == torch.uint8 else 0
    return scale.double().reshape(1), _TORCH.full((1,), zero, dtype=torch.int64)


def _at_least(scale: Any, eps: float) -> Any:
    return _TORCH.clamp(scale.to(torch.float32), min=eps)


def _quantize_groups(
    x: Any, scales: Any, zero_points: Any, low: int, high: int, dtype: Any, size: int = 128
) -> Any:
    """Quantize each `size` neighbours of a row with one scale; PyTorch's tests for NaN."""
    if size > x.shape[-1] and scales.shape[-1] == 1:
        size = x.shape[-1]
    grouped = x.reshape(-1, size) * (1.0 / scales.reshape(-1, 1)) + zero_points.reshape(-1, 1)
    return _TORCH.round(grouped).clamp(low, high).to(dtype).reshape(x.shape)


# ---- fake_quantize: quantize and dequantize, and the mask of the gradient


def _fake(
    x: Any, scale: Any, zero_point: Any, low: int, high: int, *, wraps: bool = False
) -> tuple[Any, Any]:
    """Quantize and dequantize, with f32 scale and zero point; return the result and the mask.

    NaN gives the least value. `wraps`: the kernel rounds to s64, so numbers out of its range do,
    too.
    """
    found = _TORCH.round(x.to(torch.float32) * (1.0 / scale)) + zero_point
    is_held = found.abs() < _MOST_S64 if wraps else found == found
    found = _TORCH.where(is_held, found, -_MOST_S64)
    made = (_TORCH.clamp(found, low, high) - zero_point) * scale
    return made.to(x.dtype), (found >= low) & (found <= high)


def _number(value: float) -> Any:
    return _TORCH.full((), value, dtype=torch.float32)


def _fake_per_tensor(x: Any, scale: float, zero_point: int, low: int, high: int) -> Any:
    return _fake(x, _number(scale), zero_point, low, high)


def _fake_if_enabled(x: Any, scale: Any, zero_point: Any, enabled: Any, low: int, high: int) -> Any:
    made, mask = _fake(x, scale.reshape(()).float(), zero_point.reshape(()).float(), low, high)
    is_on = enabled.reshape(()) != 0
    return _TORCH.where(is_on, made, x), mask | ~is_on


def _fake_per_channel(x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int) -> Any:
    sizes = [-1 if dim == axis % x.dim() else 1 for dim in range(x.dim())]
    scale, zero_point = scale.float().reshape(sizes), zero_point.float().reshape(sizes)
    return _fake(x, scale, zero_point, low, high, wraps=True)
