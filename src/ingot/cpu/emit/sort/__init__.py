# SPDX-License-Identifier: Apache-2.0
"""Sorts and selections as LLVM functions."""
