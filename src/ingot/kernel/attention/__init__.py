# SPDX-License-Identifier: Apache-2.0
"""Attention: products, softmax and products again in one kernel.

`build` makes the kernel of a fused computation, `schedule` says how it runs and which keys a mask
leaves to a block of rows.
"""
