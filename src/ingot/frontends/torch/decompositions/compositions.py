# SPDX-License-Identifier: Apache-2.0
"""Ops as compositions of others: `histogram`, `ormqr`, fractional pools, grids, a loss.

PyTorch leaves them whole, except the last two. Its decomposition of the grids makes constants that
it then does not trace, and its gradient takes no symbolic sizes. Its decomposition of the
multilabel margin loss counts labels after the first -1.

Source: PyTorch's `aten/src/ATen/native/Histogram.cpp`, `cpu/HistogramKernel.cpp`,
`BatchLinearAlgebra.cpp`, `FractionalMaxPool2d.cpp`, `AffineGridGenerator.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_TORCH: Any = torch  # its functions are typed by what they are called with
_ATEN: Any = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return a function for each op."""
    return {
        _ATEN.histogram.bin_ct: _histogram_of_even_bins,
        _ATEN.histogram.bins_tensor: _histogram,
        _ATEN.ormqr.default: _with_orthogonal_factor,
        _ATEN.fractional_max_pool2d.default: _fractional_pool,
        _ATEN.fractional_max_pool3d.default: _fractional_pool,
        _ATEN.fractional_max_pool2d_backward.default: _fractional_pool_gradient,
        _ATEN.fractional_max_pool3d_backward.default: _fractional_pool_gradient,
        _ATEN.affine_grid_generator.default: affine_grid,
        _ATEN.unique_consecutive.default: _runs_along_known_dimension,
    }


def _runs_along_known_dimension(
    x: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return `unique_consecutive` with a dimension counted from the first.

    Of a dimension counted from the last, PyTorch says other sizes than its kernel gives.
    """
    if dim is None or dim >= 0:
        return NotImplemented
    return _ATEN.unique_consecutive.default(x, return_inverse, return_counts, dim % x.dim())


def affine_grid(theta: Any, size: Sequence[Any], align_corners: bool) -> Any:
    """Return where a map, `[batch, rank, rank + 1]`, takes each element: `[batch, *space, rank]`.

    Coordinates are from -1 to 1, those of the last dimension first. With `align_corners` they are
    the centres of the first and the last element, else their outer edges.
    """
    space = size[2:]
    rank = len(space)

    def column(number: int) -> Any:
        return theta[:, :, number].reshape(-1, *[1] * rank, rank)

    made = column(rank)
    for axis, count in enumerate(space):
        steps = _TORCH.arange(count, dtype=theta.dtype, device=theta.device)
        if align_corners:
            positions = steps * (2 / (count - 1)) - 1 if count > 1 else steps
        else:
            positions = (steps * 2 + 1) / count - 1
        made = made + column(rank - 1 - axis) * positions.reshape(-1, *[1] * (rank - axis))
    return made


def multilabel_margin_loss(x: Any, target: Any, reduction: int) -> tuple[Any, Any]:
    """Return the loss of each row (or their mean or sum), and which elements of x are targets.

    The labels of a row are the numbers in `target`, `s64[batch, labels]`, before the first -1.
    """
    rows, labels = _TORCH.atleast_2d(x), _TORCH.atleast_2d(target)
    count = rows.shape[1]
    is_label = (labels == -1).cumsum(1) == 0
    known = _TORCH.where(is_label, labels, 0)
    number = _TORCH.arange(count, device=x.device)
    is_target = ((known[:, :, None] == number) & is_label[:, :, None]).any(1)
    gaps = (1 - rows.gather(1, known)[:, :, None] + rows[:, None]).clamp_min(0) / count
    losses = _TORCH.where(is_label[:, :, None] & ~is_target[:, None], gaps, 0).sum((1, 2))
    losses = losses.reshape(x.shape[:-1])
    if reduction:
        losses = losses.mean() if reduction == 1 else losses.sum()
    return losses, is_target.to(x.dtype).reshape(target.shape)


def _histogram_of_even_bins(
    x: Any,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Any = None,
    density: bool = False,
) -> tuple[Any, Any]:
    """Bins between the extreme elements, or between two numbers; an empty range becomes 1 wide."""
    if range is not None or x.numel() == 0:
        low, high = range or (0.0, 1.0)
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        edges = _TORCH.linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)
    else:
        low, high = x.aminmax()
        rest = (low == high).to(x.dtype) * 0.5
        edges = _TORCH.linspace(low - rest, high + rest, bins + 1, dtype=x.dtype, device=x.device)
    return _histogram(x, edges, weight=weight, density=density)


def _histogram(x: Any, bins: Any, *, weight: Any = None, density: bool = False) -> tuple[Any, Any]:
    """Each element searches for its bin; the last bin has its upper edge, NaN is in none."""
    x, edges, count = x.flatten(), bins.clone(), bins.shape[0] - 1
    weights = _TORCH.ones_like(x) if weight is None else weight.flatten()
    is_inside = (x >= edges[0]) & (x <= edges[-1])
    number = _TORCH.searchsorted(edges, x, right=True) - 1
    number = _TORCH.where(is_inside, number, 0).clamp(0, count - 1)
    found = x.new_zeros((count,)).index_add(0, number, _TORCH.where(is_inside, weights, 0))
    if density:
        found = found / (found.sum() * (edges[1:] - edges[:-1]))
    return found, edges


def _with_orthogonal_factor(
    a: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False
) -> Any:
    """Multiply with the whole orthogonal factor, whose missing reflectors are the identity."""
    rows, columns = a.shape[-2:]
    square = _TORCH.nn.functional.pad(a, (0, rows - columns))
    scales = _TORCH.nn.functional.pad(tau, (0, rows - tau.shape[-1]))
    factor = _TORCH.linalg.householder_product(square, scales)
    factor = factor.mH if transpose else factor
    made = factor @ other if left else other @ factor
    return made.mT.contiguous().mT  # LAPACK's order of dimensions


def _starts(samples: Any, size: int, count: int, length: int) -> Any:
    """Return where the windows begin along a dimension, `s64[batch, channels, count]`."""
    if count == 1:
        return _TORCH.full((*samples.shape, 1), size - length, device=samples.device)
    number = _TORCH.arange(count, device=samples.device).to(samples.dtype)
    step = (size - length) / (count - 1)
    sample = samples[..., None]
    starts = ((number + sample) * step).to(_TORCH.int64) - (sample * step).to(_TORCH.int64)
    return _TORCH.where(number == count - 1, size - length, starts)


def _fractional_pool(
    x: Any, kernel: Sequence[int], output_size: Sequence[int], samples: Any
) -> tuple[Any, Any]:
    """Gather the elements of each window; the first greatest one is found, of NaN the last one."""
    rank = len(kernel)
    planes = x if x.dim() == rank + 2 else x[None]
    space = planes.shape[2:]
    flat = _TORCH.zeros((), dtype=_TORCH.int64, device=x.device)
    for axis, (size, count, length) in enumerate(zip(space, output_size, kernel, strict=True)):
        # Samples are for the last dimension first in two dimensions, in order in three.
        sample = samples[:, :, 1 - axis if rank == 2 else axis]
        tap = _TORCH.arange(length, device=x.device)
        index = _starts(sample, size, count, length)[..., None] + tap
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = count, length
        flat = flat * size + index.reshape(*index.shape[:2], *shape)
    flat = flat.reshape(*planes.shape[:2], -1)
    windows = (*planes.shape[:2], *output_size, -1)
    values = planes.flatten(2).gather(2, flat).reshape(windows)
    is_nan = values.isnan()
    last_nan = values.shape[-1] - 1 - is_nan.to(_TORCH.int64).flip(-1).argmax(-1)
    best = _TORCH.where(is_nan.any(-1), last_nan, values.argmax(-1))[..., None]
    made = [found.gather(-1, best).squeeze(-1) for found in (values, flat.reshape(windows))]
    return (made[0], made[1]) if x.dim() == rank + 2 else (made[0][0], made[1][0])


def _fractional_pool_gradient(
    gradient: Any, x: Any, kernel: Sequence[int], output_size: Sequence[int], indices: Any
) -> Any:
    rank = len(kernel)
    lead = x.shape[: x.dim() - rank]
    made = x.new_zeros((*lead, x[(0,) * len(lead)].numel()))
    return made.scatter_add(-1, indices.reshape(*lead, -1), gradient.reshape(*lead, -1)).reshape(
        x.shape
    )
