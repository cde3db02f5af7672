# SPDX-License-Identifier: Apache-2.0
"""Complex arithmetic written as arithmetic on real and imaginary parts.

`expander` is the pass; it asks `rules` what becomes of each op; `split_values` says how a complex
value is held on the way; `calls` makes the versions of called computations that take and give
parts; `functions` has the formulas, written with `numbers`.
"""
