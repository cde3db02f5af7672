# SPDX-License-Identifier: Apache-2.0
"""Rows of PyTorch's table of ops that cannot agree with eager, each with its reason."""

from __future__ import annotations

_TIES = (
    "PyTorch promises no order of equal elements, and Ingot takes the first index: the elements at "
    "its indices are eager's."
)

ALWAYS: dict[str, str] = {
    "argsort-bfloat16": _TIES,
    "argsort-bool": _TIES,
    "argsort-float16": _TIES,
    "kthvalue-int64": _TIES,
    "mode-bfloat16": _TIES,
    "mode-bool": _TIES,
    "mode-float16": _TIES,
    "mode-int64": _TIES,
    "sort-bfloat16": _TIES,
    "sort-bool": _TIES,
    "sort-float16": _TIES,
    "topk-bfloat16": _TIES,
    "topk-int64": _TIES,
}
WITH_SYMBOLIC_SIZES: dict[str, str] = {
    "cov-float32": "TorchDynamo does not trace it with symbolic sizes, whatever the backend.",
}


def exceptions(*, dynamic: bool = False) -> dict[str, str]:
    """Return the rows that are excepted, and why.

    Args:
        dynamic: from comparisons with symbolic sizes.
    """
    return ALWAYS | (WITH_SYMBOLIC_SIZES if dynamic else {})
