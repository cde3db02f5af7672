# SPDX-License-Identifier: Apache-2.0
"""Buffers: where every value lives. Flattening, copy insertion, assignment, its check."""
