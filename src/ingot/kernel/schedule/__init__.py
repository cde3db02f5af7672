# SPDX-License-Identifier: Apache-2.0
"""Schedules of loop kernels: vector axis, lanes, tiles, pieces, and the shares of threads.

`decide` decides, `loop_schedule` is the answer. Each other module answers one question that it
asks. The emitters (`cpu.emit.loop`) spell out the answers and decide nothing.
"""
