# SPDX-License-Identifier: Apache-2.0
"""LLVM, as the rest of Ingot sees it: a text IR builder, our vector math, and the JIT.

Stands below every code generator (`cpu`, `gpu`, `runtime`) and above `support` only. Nothing here
knows HLO. The flow: `builder.ModuleBuilder` writes IR text, `jit.compile_object` makes an object of
it (through `cache`), `linking.link_object` maps the object into the process.
"""
