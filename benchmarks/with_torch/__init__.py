# SPDX-License-Identifier: Apache-2.0
"""Whole models on PyTorch's kernels, its inductor and Ingot: `make bench-torch`."""
