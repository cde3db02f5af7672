# SPDX-License-Identifier: Apache-2.0
"""Loop kernels as LLVM functions.

`kernel` makes the function, `units` its units of work, `body` their passes. The others are forms
of these: tiles, pieces, folds, rows joined or transposed, splits, scans, updates in order.
"""
