"""Fusion: what becomes one kernel.

`groups` the growing kernels and their frames, `decide` which producer joins which consumer and why,
`outline` the rewrite into `fusion` instructions, `fusion` the pass.
"""
