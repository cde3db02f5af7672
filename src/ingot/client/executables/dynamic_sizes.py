# SPDX-License-Identifier: Apache-2.0
"""Calls of programs whose parameters or results are of dynamic size (`f32[<=8]`).

The compiled program takes arrays at their bounds, with sizes after them, and returns such arrays
(`passes/expand/dynamic/boundary`). Here an argument of any size up to its bound is copied into an
array at the bound, and a result is cut to its size.

Example:
    executable = ingot.compile(module)      # (x: f32[<=8]) -> f32[<=8]
    executable(np.float32([1, 2, 3]))       # returns three numbers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.hlo.module import Module
from ingot.hlo.shape import Shape, dynamic_dims
from ingot.support.diagnostics import ExecutionError


class DynamicSizes:
    """Converts arguments and results of a module, which is not optimized yet."""

    __slots__ = ("_parameters", "_results", "_sized_parameters", "_sized_results")

    def __init__(self, module: Module) -> None:
        """Read the shapes of the entry."""
        self._parameters = _leaves(module.parameter_shapes)
        self._results = _leaves((module.result_shape,))
        self._sized_parameters = dynamic_dims(self._parameters)
        self._sized_results = dynamic_dims(self._results)

    @staticmethod
    def of(module: Module) -> DynamicSizes | None:
        """Return the conversions of a module; None if nothing is of dynamic size."""
        shapes = (*module.parameter_shapes, module.result_shape)
        return DynamicSizes(module) if dynamic_dims(shapes) else None

    def arguments(self, args: Sequence[Any]) -> list[Any]:
        """Return arrays at their bounds, then sizes.

        Raises:
            ExecutionError: an argument is larger than its bound.
        """
        arrays, sizes = list(args), list[Any]()
        for number, dim in self._sized_parameters if len(arrays) == len(self._parameters) else ():
            size = np.asarray(args[number]).shape[dim : dim + 1]
            sizes.append(np.int32(size[0] if size else 0))
        for number in dict.fromkeys(number for number, _ in self._sized_parameters):
            if number < len(arrays):
                arrays[number] = _at_bounds(arrays[number], self._parameters[number], number)
        return [*arrays, *sizes]

    def results(self, found: Any) -> Any:
        """Return a program's results, cut to the sizes behind them."""
        if not self._sized_results:
            return found
        leaves = list(found)
        leaves, sizes = leaves[: len(self._results)], leaves[len(self._results) :]
        for (number, dim), size in zip(self._sized_results, sizes, strict=True):
            leaves[number] = leaves[number][(slice(None),) * dim + (slice(int(size)),)]
        return leaves[0] if len(leaves) == 1 else tuple(leaves)


def _leaves(shapes: Sequence[Shape]) -> list[Shape]:
    return [leaf for shape in shapes for _, leaf in shape.leaves()]


def _at_bounds(argument: Any, shape: Shape, number: int) -> Any:
    # Lists and numbers take the element type of the parameter, as everywhere.
    element = None if hasattr(argument, "dtype") else shape.dtype.numpy
    array, dims = np.asarray(argument, element), shape.static_dims
    if array.ndim != len(dims):
        return array  # the program says what is wrong
    for dim, (size, bound) in enumerate(zip(array.shape, dims, strict=True)):
        if shape.bounded[dim] and size > bound:
            raise ExecutionError(
                f"dimension {dim} of argument {number} has {size} elements, "
                f"more than its bound {bound}",
                hint="give an array that fits, or compile with a larger bound or f32[?n]",
            )
    wanted = [b if flag else s for s, b, flag in zip(array.shape, dims, shape.bounded, strict=True)]
    padded = np.zeros(wanted, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded
