# SPDX-License-Identifier: Apache-2.0
"""Plain products: contractions that a driver of the library runs, and the driver's numbers.

`product` says whether a contraction is one and chooses the numbers. It asks `operands` where the
operands lie, `ways` which of them are packed and when, `blocks` how the result is divided, `tiles`
for products in the registers of AMX. `variant` names the driver's code, `cpu.emit.product` is it.
"""
