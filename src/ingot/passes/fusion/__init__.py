# SPDX-License-Identifier: Apache-2.0
"""Fusion: what becomes one kernel.

`groups` the growing kernels, `legality` what may share one, `decide` which producer joins which
consumer, `outline` the rewrite into `fusion` instructions, `fusion` the pass.
"""
