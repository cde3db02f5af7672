# SPDX-License-Identifier: Apache-2.0
"""LLVM for the rest of Ingot: a text IR builder, our vector math, and the JIT.

It is below every code generator (`cpu`, `gpu`, `runtime`) and above `support` only. Nothing here
knows HLO. The flow: `builder.ModuleBuilder` writes IR text, `jit.compile_object` compiles it to an
object (through `cache`), `linking.link_object` maps the object into the process.
"""
