# SPDX-License-Identifier: Apache-2.0
"""Emitters: kernel IR to LLVM IR. An emitter spells out what the schedule says, never chooses.

Each folder is a family of kernels, on what every target shares (`ingot.emit`). `kernel_abi` says
how all of them are called, `drivers` and `driver_calls` how library code is.
"""
