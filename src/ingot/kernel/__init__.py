# SPDX-License-Identifier: Apache-2.0
"""The kernel IR: iteration spaces, index maps, expressions; how a fusion becomes loops.

`expr` scalar expressions, `ir` kernels, `text` and `parse` their text, `fingerprint` equal kernels,
`rewrite` the rewriter, `verifier` what holds of a kernel, `evaluate` what it stores, `index_math`
index arithmetic, `numbers` what library drivers take.

Each folder is a step or a family: `elemental` HLO to expressions, `loop` fusions to loop kernels,
`schedule` their tiles, vectors and threads, `forms` those that need no code of their own;
`contraction`, `convolution`, `sort` and `fft` kernels of their kind. The same IR goes to CPU
vectors and GPU threads.
"""
