# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: from a fused `fft` to stages, and from a stage to steps.

`build` makes an `FftKernel` and its stages, `steps` the steps that a block of a stage's sequences
takes, one factor of the length (`radices`) at a time, with roots of unity from `tables`. The steps'
code is `cpu.emit.fft`.
"""
