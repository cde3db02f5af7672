# SPDX-License-Identifier: Apache-2.0
"""Threads and what they wait for, as native functions: locks, the pool, fibers, interrupts.

* `sync`: synchronization of native functions: spin lock, pause, futex sleep and wake;
* `threads`: detached threads;
* `float_modes`: how a thread's CPU computes with floats: rounding to nearest even, denormals kept,
  no traps;
* `interrupts`: cancellation of running executions: by a signal, another thread or a deadline;
* `pool`: the fork-join thread pool, as native functions;
* `fibers`: functions that wait for each other on a few threads, as native functions.
"""
