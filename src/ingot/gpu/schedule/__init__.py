# SPDX-License-Identifier: Apache-2.0
"""Schedules for GPUs: which strategy a kernel takes, and how many blocks of threads run it.

`strategies` holds the records, `decide` the table in priority order; the other files say which
kernels a strategy takes. Invariant: the answer depends on the kernel, its sizes and the machine, so
results do not depend on the order in which a device runs blocks; floats are never added by atomic
operations.
"""
