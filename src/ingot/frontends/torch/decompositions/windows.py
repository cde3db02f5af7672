# SPDX-License-Identifier: Apache-2.0
"""Window functions, and the frequencies of Fourier transforms, as arithmetic of an `arange`.

Source: PyTorch's `aten/src/ATen/native/TensorFactories.cpp`, `SpectralOps.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_TORCH: Any = torch  # its functions are typed by what they are called with
_ATEN: Any = torch.ops.aten

Formula = Callable[..., Any]
"""Takes the numbers of the elements, the number of the last one, and the window's parameters."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return a function for each op."""
    found = {_ATEN.fft_fftfreq.default: _frequencies, _ATEN.fft_rfftfreq.default: _half}
    for name, formula in _FORMULAS.items():
        packet = getattr(_ATEN, name)
        for overload in packet.overloads():
            if "out" not in overload:
                takes_period = overload.startswith("periodic") or overload == "beta"
                found[getattr(packet, overload)] = _window(formula, takes_period)
    return found


def _bartlett(number: Any, last: Any) -> Any:
    return 1 - (number * (2 / last) - 1).abs()


def _blackman(number: Any, last: Any) -> Any:
    angle = number * (2 * math.pi / last)
    return (2 * angle).cos() * 0.08 - angle.cos() * 0.5 + 0.42


def _hamming(number: Any, last: Any, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return alpha - (number * (2 * math.pi / last)).cos() * beta


def _kaiser(number: Any, last: Any, beta: float = 12.0) -> Any:
    part = number * (2 / last) - 1
    bound = _TORCH.special.i0(_TORCH.full((), beta, dtype=number.dtype))
    return _TORCH.special.i0(beta * (1 - part * part).clamp(min=0).sqrt()) / bound


_FORMULAS: dict[str, Formula] = {
    "bartlett_window": _bartlett,
    "blackman_window": _blackman,
    "hamming_window": _hamming,
    "kaiser_window": _kaiser,
}


def _window(formula: Formula, takes_period: bool) -> Callable[..., Any]:
    def made(length: Any, *given: Any, dtype: Any = None, **placed: Any) -> Any:
        periodic, parameters = (given[0], given[1:]) if takes_period else (True, given)
        kind = _TORCH.get_default_dtype() if dtype is None else dtype
        device = placed.get("device")
        if length <= 1:
            return _TORCH.ones((length,), dtype=kind, device=device)
        # Halves are rounded once.
        wide = _TORCH.float32 if kind.itemsize < 4 else kind
        number = _TORCH.arange(length, dtype=wide, device=device)
        return formula(number, length if periodic else length - 1, *parameters).to(kind)

    return made


def _frequencies(count: Any, step: float = 1.0, *, dtype: Any = None, **placed: Any) -> Any:
    kind = _TORCH.get_default_dtype() if dtype is None else dtype
    number = _TORCH.arange(count, device=placed.get("device"))
    number = _TORCH.where(number < (count + 1) // 2, number, number - count)
    return number.to(kind) * (1.0 / (count * step))


def _half(count: Any, step: float = 1.0, *, dtype: Any = None, **placed: Any) -> Any:
    kind = _TORCH.get_default_dtype() if dtype is None else dtype
    number = _TORCH.arange(count // 2 + 1, device=placed.get("device"))
    return number.to(kind) * (1.0 / (count * step))
