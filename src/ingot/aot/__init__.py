# SPDX-License-Identifier: Apache-2.0
"""Ahead of time: a module becomes an object file, a shared library, a static archive and a header.

Stands over the compiler, as `client` does, and shares its artifact. `build` compiles, `glue` adds
the C functions, `relocatable`, `linkable` and `archive` write the files, `header` declares them.
`ingot.runtime.load` runs a shared library from Python and knows nothing of this package; both
read `ingot.artifact.metadata`.
"""
