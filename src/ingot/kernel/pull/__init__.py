# SPDX-License-Identifier: Apache-2.0
"""Pulling: the value of an instruction at a place, as an expression of loads.

`pull` is the way in, `puller` walks from a result towards the parameters, `place` is where a value
is wanted and which masks that needs. `indexing_rules` and `shaping_rules` are the rules of ops that
move elements; `window` and the two of convolutions say which elements a window takes.
"""
