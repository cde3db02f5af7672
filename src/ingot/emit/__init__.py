# SPDX-License-Identifier: Apache-2.0
"""Emission that every target shares: kernel IR to LLVM IR, at any lane count.

`values` is what computes in registers, `loop` the units, passes, folds and scans of loop kernels.
Below `cpu` and `gpu`, which add what their machines have: a thread of a GPU is a unit with one
lane. Invariant: an emitter spells out what the schedule says, never chooses.
"""
