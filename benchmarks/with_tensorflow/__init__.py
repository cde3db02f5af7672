# SPDX-License-Identifier: Apache-2.0
"""Whole models on TensorFlow's kernels, its XLA and Ingot: `make bench-tf`."""
