# SPDX-License-Identifier: Apache-2.0
"""The kernel IR: iteration spaces, index maps, expressions; how a fusion becomes loops.

Stands between fusion (`passes`), which decides what is a kernel, and a target (`cpu`, `gpu`), which
emits it. The way in is `lowering`: a fused computation becomes a kernel of the kind that suits it.

The IR is `expr` (scalar expressions) and `ir` (kernels); `index_math` simplifies their indices.
`text` and `parse` (with `parse_values`) write, name and read kernels, `rewrite` changes them,
`verifier` checks them, `evaluate` runs them in NumPy.

The folders, in the order of the flow:

* `elemental` lowers HLO to expressions, for kernels of every kind;
* `loop` builds loop kernels, `analysis` finds facts about them, `passes` rewrites them, `schedule`
  chooses their tiles, vectors and chunks, `generic` finds those that library code runs;
* `contraction` builds and plans kernels around a matrix product, `product` chooses the numbers of
  those that a driver of the library runs, `convolution` and `attention` are built on both;
* `sort` and `fft` have kernels of their own kind.

`plan_verifier` checks plans of contractions and attention, `driver_parameters` holds the numbers
that drivers of the library take.
"""
