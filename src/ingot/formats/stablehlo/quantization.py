# SPDX-License-Identifier: Apache-2.0
"""Quantized element types, read from MLIR's text: `!quant.uniform<i8:f32, 0.1:-3>`.

Example:
    >>> parse_quantized("!quant.uniform<u8<0:15>:f32:1, {0.5:8,0.25}>").zero_points
    (8, 0)
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

from ingot.hlo.dtype import DTYPES, DType
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record
from ingot.support.regex import regex

_TYPE = regex(
    r"!quant\.uniform<(u?i|u)(\d+)(?:<(-?\d+):(-?\d+)>)?:(\w+)(?::(\d+))?,\s*(.*)>$", re.DOTALL
)
_NUMBER = regex(r"(0x[0-9A-Fa-f]+|[-+.\deE]+)(?::(-?\d+))?")


@record
class Quantization:
    """A quantized type, whose integers represent (integer - zero point) * scale.

    Attributes:
        storage: type of the integers.
        expressed: type of the numbers.
        least, most: range of the integers.
        axis: the dimension along which scales and zero points differ, or None.
        scales, zero_points: one, or one per index of the axis.
    """

    storage: DType
    expressed: DType
    least: int
    most: int
    axis: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]


def parse_quantized(text: str) -> Quantization:
    """Return the quantization of MLIR's text of a quantized element type."""
    found = _TYPE.match(text)
    if found is None:
        raise UnsupportedError(
            f"Ingot has no element type for '{text}' of StableHLO",
            code="INGOT0351",
            hint="quantized types are !quant.uniform, per tensor or along one dimension",
        )
    sign, bits, least, most, expressed, axis, rest = found.groups()
    storage = DTYPES[f"{'s' if sign == 'i' else 'u'}{bits}"]
    limits = ml_dtypes.iinfo(storage.numpy)
    pairs = _NUMBER.findall(rest)
    return Quantization(
        storage,
        DTYPES[expressed],
        int(limits.min) if least is None else int(least),
        int(limits.max) if most is None else int(most),
        None if axis is None else int(axis),
        tuple(_float(scale, expressed) for scale, _ in pairs),
        tuple(int(zero or 0) for _, zero in pairs),
    )


def _float(text: str, expressed: str) -> float:
    """Return a scale; MLIR writes one without a short decimal form as the bits of the type."""
    if not text.startswith("0x"):
        return float(text)
    element = np.dtype(DTYPES[expressed].numpy)
    bits = np.array(int(text, 16), f"u{element.itemsize}")
    return float(bits.view(element))
