# SPDX-License-Identifier: Apache-2.0
"""Convolutions, brought to what kernels run well.

`operands` slices filters that are larger than the image, or swaps the two; `phases` leaves out the
products with the gaps of a dilated input; `taps` makes those to few features one product;
`grouped_filter_gradients` joins small groups, `depthwise_strips` handles one channel a group.
`canonicalizer` brings what is left to the layout that kernels read.
"""
