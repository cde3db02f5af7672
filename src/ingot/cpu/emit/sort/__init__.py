"""Sorts and selections as LLVM functions."""
