# SPDX-License-Identifier: Apache-2.0
"""Emission that every target shares: kernel IR to LLVM IR, at any lane count.

`values` is what computes in registers, `loop` the units, passes, folds and scans of loop kernels,
`fft` the arithmetic of Fourier transforms. Below `cpu` and `gpu`, which add what their machines
have: a thread of a GPU is a unit with one lane.

Invariant: an emitter spells out what the schedule says and chooses no loop, lane or buffer. It does
select instructions, as a code generator does: how the lanes of one access are encoded
(`values.accesses`: runs, whole vectors to pick from, a gather), the order of independent operands
(`values.values.MUCH_LOWER`), and what is kept in a register over units (`loop.units.LONG`). These
depend on the values and masks at that point of the code, which a schedule does not have, and change
neither what is computed nor in which loops.
"""
