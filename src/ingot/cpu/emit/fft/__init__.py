"""Fourier transforms as LLVM functions: vectors hold one element of several sequences each."""
