# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA GPU target: PTX from the same kernel IR as the CPU's code.

`machine` says what a GPU has, `schedule` how a kernel runs on it, `emit` spells that out as LLVM IR
with what every target shares (`ingot.emit`), `compiler` turns it into PTX, and `program` adds the
host program that launches it. Nothing here touches a device: `runtime.cuda` does.

The other files, those that import others first:

* `host`: host programs of a GPU: the runtime launches kernels, copies and reads values for them;
* `pipeline`: the GPU pipeline: a literal tuple of passes, in the order in which they run;
* `kernels`: kernels of a module for a GPU: each fusion lowered, scheduled, emitted;
* `intrinsics`: what a thread asks of its GPU: its number, barriers, values of other threads of its
  warp.
"""
