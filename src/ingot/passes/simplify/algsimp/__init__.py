# SPDX-License-Identifier: Apache-2.0
"""Algebraic simplification: local rules in small files by theme, and the pass that applies them.

`rules` is the pass, with every rule in the order in which they are tried. The rules: `arithmetic`,
`powers`, `lattice`, `comparisons`, `constants`, `conversions`; of shapes `reshapes`, `boxes`,
`gathers`, `joins`; of folds `reductions`, `windows`. `helpers` are what their conditions ask.

Source of the algebra: xla/hlo/transforms/simplifiers/algebraic_simplifier.cc; the StableHLO
specification for what holds on special values.
"""
