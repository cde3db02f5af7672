# SPDX-License-Identifier: Apache-2.0
"""Expansion: rewrites ops that no emitter supports into ops that emitters support."""
