# SPDX-License-Identifier: Apache-2.0
"""Values in registers: everything that a kernel computes at one block of points.

`values` emits expressions; it is made of `indices` (their emission, and what has been emitted) and
`accesses` (loads and stores). `elementwise` has a row for each opcode; `conversions`, `division`
(of integers) and `quotients` (of floats) are the long ones. `types` says how element types lie in
memory and in registers. `squares` transposes vectors, `sizes` emits sizes on the host.
"""
