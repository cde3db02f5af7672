# SPDX-License-Identifier: Apache-2.0
"""Passes: what changes a module on its way from HLO to kernels, one package for each purpose.

In the order in which a target's pipeline (`cpu.pipeline`) runs them: `simplify` leaves the same
program with less in it, and runs `expand` (ops that no kernel supports) and `layout` (explicit
layouts) on the way; `fusion` decides what is one kernel, `schedule` the order of kernels, `buffers`
where values live. Before all that, `spmd` divides a program over devices and `stages` one that
computes sizes. `late` imports the passes that few programs need when one comes. Several of them
copy bodies to their calls (`inline`), except those that would come too often (`unfolding`).
"""
