# SPDX-License-Identifier: Apache-2.0
"""Simplification: the same program with less in it. `pipeline` says in which order.

* Local rules: `algsimp`; `constant_folding`; `dead_code` (and common subexpressions); `zero_sized`.
* Calls: `calls` inlines them.
* Loops: `while_loops`.
* Products: `dots`, `pair_reductions`; `convolutions`; `movers` moves transposes and reshapes to
  where they cancel.
* Others: `sorts`, `scatters`, `all_reduces`.
"""
