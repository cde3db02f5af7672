"""Contractions as LLVM functions: packing, micro-kernels, epilogues; drivers of plain products."""
