# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA GPU target: PTX from the same kernel IR as the CPU's code.

`machine` says what a GPU has, `schedule` how a kernel runs on it, `emit` spells that out as LLVM IR
on what every target shares (`ingot.emit`), `compiler` makes PTX of it. Nothing here launches a
kernel: there is no runtime for GPUs yet.
"""
