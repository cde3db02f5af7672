# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms as LLVM functions: vectors hold one element of several sequences each.

`stages` is the driver, a native function: it takes blocks of sequences through their `steps`. A
step reads and writes `sides` (tiles, rows or columns of memory); rows that registers hold are
transformed there (`register_rows`). `fold_stage` takes transforms of real sequences apart. The
steps and their numbers come from `kernel.fft`.
"""
