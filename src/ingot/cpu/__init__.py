# SPDX-License-Identifier: Apache-2.0
"""The CPU backend: from a module to an artifact.

`compiler` is the way in. It runs the passes of `pipeline`, then makes kernels: `kernels` gathers
those of a program, asks `strategies` how each runs, and has code emitted (`emit`) or taken from the
`library` of code that programs share. `code` is what `kernels` makes, `calls` how the host program
runs it.

Then the host program: `inlining` says which small kernels become part of the code of their loop
and which loops are functions, `register_loops` emits these; what is left is `steps` if it is a
straight line of calls, else a function (`host`).
"""
