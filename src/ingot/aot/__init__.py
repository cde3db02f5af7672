# SPDX-License-Identifier: Apache-2.0
"""Ahead of time: a module becomes an object file, a shared library, a static archive and a header.

It is above the compiler, as `client` is, and uses its artifact. `build` compiles, `glue` adds the C
functions, `relocatable`, `linkable` and `archive` write the files, `header` declares the functions.
`ingot.runtime.load` runs a shared library from Python without this package; both read
`ingot.artifact.metadata`.
"""
