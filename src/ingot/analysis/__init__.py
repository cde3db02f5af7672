# SPDX-License-Identifier: Apache-2.0
"""Facts about modules that several layers need; computed on demand, invalidated by edits.

* Values and memory: `aliasing` (which value a leaf holds), `in_place` (which result lives in an
  operand), `failures` (what must survive), `liveness` (when a value must be intact).
* Fusions: `frames` (the axes that a value varies along), `cost`, `size_demands`.
* What a group of instructions means to a kernel, asked by passes and by strategies, so that both
  agree: `attention`, `epilogues`, `conv1d`, `scans`, `filter_gradient`, `direct_convolution`,
  `convolution_phases`; `library` has what library code is compiled for.
* `common_factors` of a reshape; `network`, the time of collectives.
"""
