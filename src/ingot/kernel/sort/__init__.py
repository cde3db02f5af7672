"""Sorts and selections: `SortKernel` and `TopKKernel` from fused computations."""
