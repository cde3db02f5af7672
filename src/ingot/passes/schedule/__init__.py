# SPDX-License-Identifier: Apache-2.0
"""Scheduling: in which order the host program runs the instructions.

`scheduler` chooses an order with little memory, as `problem` allows; `latency_hiding` then lets
collectives run beside kernels, by the times of `estimates`.
"""
