# SPDX-License-Identifier: Apache-2.0
"""Constraints on every window: sizes, strides and dilations are positive.

Source: InferWindowOutputShape of xla/service/shape_inference.cc.
"""

from __future__ import annotations

from ingot.hlo.opdef import require
from ingot.hlo.window import Window


def require_window(prefix: str, window: Window, labels: tuple[str, str, str, str]) -> None:
    """Check a window; labels of size, stride, base and window dilation, "" if it may be 0."""
    size, stride, base, dilation = labels
    for one in window:
        if one.stride <= 0:
            require(False, f"{prefix}_{stride}", f"a window's stride is positive: {one.stride}")
        if one.base_dilation <= 0:
            message = f"the dilation of what a window is over is positive: {one.base_dilation}"
            require(False, f"{prefix}_{base}", message)
        if one.window_dilation <= 0:
            message = f"a window's dilation is positive: {one.window_dilation}"
            require(False, f"{prefix}_{dilation}", message)
        if size and one.size <= 0:
            require(False, f"{prefix}_{size}", f"a window's size is positive: {one.size}")
