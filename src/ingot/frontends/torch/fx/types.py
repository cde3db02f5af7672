# SPDX-License-Identifier: Apache-2.0
"""Element types of PyTorch and of HLO: one table, both ways."""

from __future__ import annotations

import torch

from ingot.hlo.dtype import DType, dtype
from ingot.support.diagnostics import UnsupportedError

_NAMES = {
    torch.bool: "pred",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.int8: "s8",
    torch.int16: "s16",
    torch.int32: "s32",
    torch.int64: "s64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3fn",
    torch.float8_e4m3fnuz: "f8e4m3fnuz",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e5m2fnuz: "f8e5m2fnuz",
}
_TORCH = {name: kind for kind, name in _NAMES.items()}


def element_of(kind: torch.dtype) -> DType:
    """Return HLO's element type of PyTorch's.

    Raises:
        UnsupportedError: INGOT0370, HLO has no such type (complex32, quantized types).

    Example:
        >>> element_of(torch.bfloat16).name
        'bf16'
    """
    name = _NAMES.get(kind)
    if name is None:
        raise UnsupportedError(f"{kind} has no counterpart in HLO", code="INGOT0370")
    return dtype(name)


def torch_type(element: DType) -> torch.dtype:
    """Return PyTorch's element type of HLO's."""
    return _TORCH[element.name]
