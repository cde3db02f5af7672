# SPDX-License-Identifier: Apache-2.0
"""Rows of PyTorch's table of ops that cannot agree with eager, each with its reason."""

_ROUNDED_ONCE = (
    "Eager rounds partial sums to bf16, and Ingot sums in f32 and rounds once: where terms cancel, "
    "they differ by more than the tolerance."
)

EXCEPTIONS: dict[str, str] = {
    "nn.functional.conv_transpose1d-bfloat16": _ROUNDED_ONCE,
    "nn.functional.conv_transpose2d-bfloat16": _ROUNDED_ONCE,
    "nn.functional.conv_transpose3d-bfloat16": _ROUNDED_ONCE,
}
