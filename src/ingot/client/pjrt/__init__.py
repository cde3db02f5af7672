# SPDX-License-Identifier: Apache-2.0
"""The PJRT C API: Ingot as a device of JAX and of every other host that uses it.

A host gets one table of functions (`plugin.api_address`). Those that a running program calls
(execute, buffers, events, transfers) are native functions (`ingot.native`) over the C structs of
`records`, in the `native_*` files. Most others only read a field and are emitted from the table of
`getters`; the rest is Python (`slots_*`), called through `trampolines`.

Invariant: no Python runs when a compiled program is executed again and its results are read.
"""
