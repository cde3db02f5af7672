# SPDX-License-Identifier: Apache-2.0
"""Convolutions: which of four ways runs one, and the numbers that its driver takes.

The four: an implicit matrix product (`build`), sums over the image in place (`direct`, whose parts
`direct_parts` plans), Winograd's F(2x2, 3x3) (`winograd`), and gradients of filters
(`filter_gradient`). `plain` finds what the drivers of the last three need to know.
"""
