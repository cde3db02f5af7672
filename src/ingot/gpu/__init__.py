# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA GPU target: PTX from the same kernel IR as the CPU's code.

`machine` says what a GPU has, `schedule` how a kernel runs on it, `emit` spells that out as LLVM IR
with what every target shares (`ingot.emit`), `compiler` turns it into PTX, and `program` adds the
host program that launches it. Nothing here touches a device: `runtime.cuda` does.
"""
