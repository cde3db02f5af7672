# SPDX-License-Identifier: Apache-2.0
"""Elemental lowering: the value of an instruction at a point, as an expression of loads.

`rules` is the way in, `lowering` walks from a result towards the parameters, `points` is where a
value is wanted and which masks that needs. `shaping_rules` are the rules of ops that move
elements; `window` and `convolution_index` say which elements a window takes.

Source: the name is that of XLA's elemental IR emitter, which does the same with LLVM's values.
"""
