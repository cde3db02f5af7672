# SPDX-License-Identifier: Apache-2.0
"""The library: code that all programs share, because it is the same at every size.

What XLA takes from precompiled libraries (Eigen, oneDNN, DUCC), Ingot emits: micro-kernels whose
strides are parameters, drivers of plain products, plain reductions, sorts, selections, copies of
boxes, the steps of Fourier transforms. Each part (`parts`) is compiled when it is first needed on a
machine, kept on disk by the object cache, and mapped once for all programs of a process; these
refer to its functions by name and pass numbers in env.

A kernel runs in the library where a strategy says so (`cpu.strategies`). `subroutines` are parts
that kernels call: exponentials and other functions, transposes of squares.
"""
