# SPDX-License-Identifier: Apache-2.0
"""Rows of PyTorch's table of ops that cannot agree with eager, each with its reason."""

from __future__ import annotations

_TIES = (
    "PyTorch promises no order of equal elements, and Ingot takes the first index: the elements at "
    "its indices are eager's."
)
_TAKEN_APART = (
    "TorchDynamo replaces the op by three, each of which rounds to bf16, before any backend sees "
    "it: `backend='eager'` gives Ingot's result."
)

ALWAYS: dict[str, str] = {
    "addcdiv-bfloat16": _TAKEN_APART,
    "argsort-bfloat16": _TIES,
    "argsort-bool": _TIES,
    "kthvalue-int64": _TIES,
    "mode-bfloat16": _TIES,
    "mode-bool": _TIES,
    "mode-int64": _TIES,
    "sort-bfloat16": _TIES,
    "sort-bool": _TIES,
    "topk-bfloat16": _TIES,
    "topk-int64": _TIES,
}
WITH_GRADIENTS: dict[str, str] = {
    "ldexp-bfloat16": "Sums of rounded products: eager's are as far from those in f64 as Ingot's.",
    "matrix_exp-bfloat16": "Eager's gradient is NaN.",
}
WITH_SYMBOLIC_SIZES: dict[str, str] = {
    "cov-float32": "TorchDynamo does not trace it with symbolic sizes, whatever the backend.",
}


def exceptions(*, grad: bool = False, dynamic: bool = False) -> dict[str, str]:
    """Return the rows that are excepted, and why.

    Args:
        grad: from comparisons of gradients.
        dynamic: from comparisons with symbolic sizes.
    """
    return ALWAYS | (WITH_GRADIENTS if grad else {}) | (WITH_SYMBOLIC_SIZES if dynamic else {})
