# SPDX-License-Identifier: Apache-2.0
"""The native runtime: thread pool, buffer allocator, execution, and the Python call.

Everything that runs while a program executes is native functions (`ingot.native`) over C structs,
each declared once (in `records`, or in the module that owns it). The flow: `native` builds and
links the runtime, `program.Program` joins a compiled program with its `ProgramInfo`, and
`program.call` executes it. The compiler and this package share only `ingot.artifact`.
"""
