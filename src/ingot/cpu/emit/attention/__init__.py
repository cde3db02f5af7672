# SPDX-License-Identifier: Apache-2.0
"""Emitters of attention kernels."""
