# SPDX-License-Identifier: Apache-2.0
"""Host programs: the schedule of a module as native code, for any target.

`sizes` computes what depends on arguments' shapes, `control` emits scheduled computations as calls,
loops and branches, and `program` combines both into the two functions of the execution ABI
(`ingot.artifact.abi`). `sites` numbers what a profiler times; `polling` lets executions be
cancelled. The target decides how a kernel is called and how a value is read: `ingot.cpu.host`,
`ingot.gpu.host`.

The other files, those that import others first:

* `kernel_info`: what each kernel of a compiled program is, for reports (executable.kernels);
* `program_kernels`: the kernels of a program, on any target: fusions lowered to kernel IR, equal
  ones once;
* `placed`: a module after buffer assignment, from which host programs are emitted;
* `unsupported`: errors about ops without a kernel name the user's op and its source line;
* `size_limits`: limits on sizes: no size that native code computes overflows 64 bits.
"""
