# SPDX-License-Identifier: Apache-2.0
"""Strategies of the CPU: how a kernel runs, decided once for each.

`table` is the list in priority order; `request` is what a strategy is asked about; `plans` is what
it answers where code is to be compiled (`cpu.library.parts.LibraryKernel` where none is); `text`
prints both. Strategies of library code are in `cpu.library`, those of a kernel's own code in
`contraction`, `attention` and `sorts`.
"""
