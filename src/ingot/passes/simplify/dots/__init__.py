# SPDX-License-Identifier: Apache-2.0
"""Dots, brought to what kernels run well: multiplied and added by loops, or in a native form.

`sums_of_products` makes dots of sums that are products. `strength_reduction` replaces weak ones by
arithmetic, then `canonicalizer` brings the others to the form that contractions have. `sides`
describes the operands of a dot, for passes on loops too.
"""
