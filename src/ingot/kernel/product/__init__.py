# SPDX-License-Identifier: Apache-2.0
"""Plain products: contractions that a driver of the library runs, and the driver's numbers.

`product` says whether a contraction is one and chooses the numbers. It asks `operands` where the
operands lie, `blocks` how the result is divided and what is packed ahead, `tiles` for products in
the registers of AMX. `variant` names the driver's code. The driver is `cpu.emit.product`.
"""
