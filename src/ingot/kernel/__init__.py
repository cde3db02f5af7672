# SPDX-License-Identifier: Apache-2.0
"""The kernel IR: iteration spaces, index maps, expressions; how a fusion becomes loops.

Stands between fusion (`passes`), which decides what is a kernel, and a target (`cpu`, `gpu`), which
emits it. The IR itself is `expr` (scalar expressions) and `ir` (kernels). Around it: `text` and
`parse` write, name and read it, `rewrite` changes it, `verifier` checks it, `evaluate` runs it in
NumPy, `index_math` simplifies indices, `numbers` holds the parameters of library drivers.

Each folder is a step or a family: `elemental` lowers HLO to expressions, `loop` builds and rewrites
loop kernels, `schedule` chooses their tiles, vectors and threads, `generic` finds those that
library code runs; `contraction`, `convolution`, `attention`, `sort` and `fft` have kernels of
their kind.
"""
