# SPDX-License-Identifier: Apache-2.0
"""Contractions: kernels around a matrix product, with prologues and epilogues.

`build` makes them; `schedule`, `unit_blocks` and `register_block` decide how they run. Plain
products run in a driver of the library (`product`): `product_operands` finds their operands,
`product_variant` names the driver's code and parameters, `product_blocks` chooses the blocks.
"""
