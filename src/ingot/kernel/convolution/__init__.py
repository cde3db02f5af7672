# SPDX-License-Identifier: Apache-2.0
"""Convolutions: which of four ways runs one, and the numbers that its driver takes.

`build` makes the kernel, an implicit matrix product, and so the way for any convolution. `plain`
finds what three drivers of the library need to know: sums over the image in place (`direct`, whose
parts `direct_parts` plans), Winograd's F(2x2, 3x3) (`winograd`), and gradients of filters
(`filter_gradient`). `image_numbers` are numbers that several of them take. The drivers are
`cpu.emit.convolution`.
"""
