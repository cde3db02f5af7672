# SPDX-License-Identifier: Apache-2.0
"""Host programs: the schedule of a module as native code, for any target.

`sizes` computes what depends on arguments' shapes, `control` emits scheduled computations as calls,
loops and branches, and `program` combines both into the two functions of the execution ABI
(`ingot.artifact.abi`). `sites` numbers what a profiler times; `polling` lets executions be
cancelled. The target decides how a kernel is called and how a value is read: `ingot.cpu.host`,
`ingot.gpu.host`.
"""
