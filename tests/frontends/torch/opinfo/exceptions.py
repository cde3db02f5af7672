# SPDX-License-Identifier: Apache-2.0
"""Rows of PyTorch's table of ops that cannot agree with eager, each with its reason."""

EXCEPTIONS: dict[str, str] = {}
