# SPDX-License-Identifier: Apache-2.0
"""Algebraic simplification: local rules in small files by theme, and the pass that applies them.

Source of the algebra: xla/hlo/transforms/simplifiers/algebraic_simplifier.cc; the StableHLO
specification for what holds on special values.
"""
