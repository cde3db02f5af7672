# SPDX-License-Identifier: Apache-2.0
"""Decompositions of ops whose kernels refuse some values: those of PyTorch, with its assertions.

PyTorch's own decompositions leave the assertions out, so a probability above 1 or an index outside
of an unpooled image would go unnoticed.

Source: PyTorch's `aten/src/ATen/core/DistributionsHelper.h`, `native/Loss.cpp`,
`native/cpu/MaxUnpoolKernel.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_TORCH: Any = torch  # its functions are typed by what they are called with
_ATEN: Any = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return a function for each op."""
    return {
        _ATEN.bernoulli.default: _bernoulli,
        _ATEN.binary_cross_entropy.default: _binary_cross_entropy,
        _ATEN.max_unpool2d.default: _unpooled(_ATEN.max_unpool2d.default),
        _ATEN.max_unpool3d.default: _unpooled(_ATEN.max_unpool3d.default),
    }


def _of_pytorch(op: Any) -> Callable[..., Any]:
    return _TORCH._decomp.get_decompositions([op])[op]


def _assert_probabilities(p: Any, message: str) -> None:
    """Let the program fail if a number is outside of 0..1, or NaN."""
    _ATEN._assert_async.msg(((p >= 0) & (p <= 1)).all(), message)


def _bernoulli(p: Any, *, generator: Any = None) -> Any:
    """Return 1 with probability p: PyTorch draws f64 numbers for f64, f32 numbers otherwise."""
    _assert_probabilities(p, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    kind = _TORCH.promote_types(p.dtype, _TORCH.float32)
    # With a generator, PyTorch takes no symbolic sizes.
    given = {} if generator is None else {"generator": generator}
    drawn = _TORCH.rand(p.size(), dtype=kind, device=p.device, **given)
    return (drawn < p).to(p.dtype)


def _binary_cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    """Return the loss of probabilities: PyTorch's decomposition."""
    _assert_probabilities(x, "all elements of input should be between 0 and 1")
    return _of_pytorch(_ATEN.binary_cross_entropy.default)(x, target, weight, reduction)


def _unpooled(op: Any) -> Callable[..., Any]:
    """Return PyTorch's decomposition of an op that puts maxima where they were found."""

    def unpooled(x: Any, indices: Any, output_size: Any, *steps: Any) -> Any:
        sizes = "x".join(map(str, output_size))
        count = 1
        for size in output_size:
            count = count * size
        message = f"Found an invalid max index (output volumes are of size {sizes})"
        _ATEN._assert_async.msg(((indices >= 0) & (indices < count)).all(), message)
        return _of_pytorch(op)(x, indices, output_size, *steps)

    return unpooled
