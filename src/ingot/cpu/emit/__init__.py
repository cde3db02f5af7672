# SPDX-License-Identifier: Apache-2.0
"""Emitters: kernel IR to LLVM IR. An emitter spells out what the schedule says, never chooses.

Each folder is a family of kernels, built on what every target shares (`ingot.emit`): `loop`,
`contraction`, `product`, `convolution`, `attention`, `sort`, `fft`.

`kernel_abi` defines how all of them are called, `template` what library code is, `drivers` how the
drivers of products and convolutions are called, `driver_records` how their env begins.
"""
