# SPDX-License-Identifier: Apache-2.0
"""Evaluating linked targets: running the code of one call on NumPy arrays.

A target that has code but no definition in NumPy is evaluated by calling that code with a frame
made here. Invariant: the code gets what a compiled program would give it: 64-byte aligned dense
buffers in the layouts of the call site, aliased results holding their operands.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.shape import Shape
from ingot.llvm.machine_model import LINE_BYTES
from ingot.runtime.arguments.c_arrays import int64_array
from ingot.runtime.foreign.errors import take_error
from ingot.runtime.native import native_runtime
from ingot.runtime.records import CALL_FRAME
from ingot.semantics.call_layouts import logical_dims, physical_dims
from ingot.semantics.custom_calls import CallSite, LinkedCall
from ingot.support.diagnostics import ExecutionError

Array = np.ndarray[Any, np.dtype[Any]]


def evaluator_of(link: Callable[[CallSite], LinkedCall]) -> Callable[..., tuple[Array, ...]]:
    """Return the `evaluate` of a target that has only a `link`."""

    def evaluate(call: CallSite, *arrays: Array) -> tuple[Array, ...]:
        return run_linked(link(call), call, arrays)

    return evaluate


def run_linked(linked: LinkedCall, call: CallSite, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Call linked code on arrays of logical dimensions; return its array results.

    Raises:
        ExecutionError: INGOT0505, the code returned a failure.
    """
    given = iter(arrays)
    operands = [_in_memory(s, next(given)) if s.is_array else None for s in call.operands]
    results = [_empty(shape, call, arrays) if shape.is_array else None for shape in call.results]
    for result, operand in call.aliases:
        target, source = results[result], operands[operand]
        if target is not None and source is not None:
            target[...] = source
    dims = [_dims(call.operands, operands), _dims(call.results, results)]
    frame = _Frame((operands, results), dims)
    function: Any = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(linked.address)
    if function(frame.address):
        failure = take_error()
        raise ExecutionError(
            f"custom call '{call.target}' failed{f': {failure.message}' if failure else ''}",
            code="INGOT0505",
            op_name=call.op_name,
            location=call.location,
        ) from (failure.cause if failure else None)
    pairs = zip(call.results, results, strict=True)
    return tuple(_logical(shape, array) for shape, array in pairs if array is not None)


class _Frame:
    """A frame record and the memory that it points to."""

    def __init__(
        self, sides: Sequence[Sequence[Array | None]], dims: Sequence[Sequence[tuple[int, ...]]]
    ) -> None:
        self.owned: list[Any] = []
        fields = [native_runtime().record]
        fields += [self._pointers([_address(array) for array in side]) for side in sides]
        fields += [self._pointers([self._numbers(sizes) for sizes in side]) for side in dims]
        self.record = CALL_FRAME.structure(*fields)
        self.address = ctypes.addressof(self.record)

    def _pointers(self, addresses: Sequence[int | None]) -> int:
        block = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        self.owned.append(block)
        return ctypes.addressof(block)

    def _numbers(self, sizes: tuple[int, ...]) -> int:
        block = int64_array(sizes)
        self.owned.append(block)
        return ctypes.addressof(block)


def _dims(shapes: Sequence[Shape], side: Sequence[Array | None]) -> list[tuple[int, ...]]:
    """Return the dimensions that the target knows, of each array of one side."""
    pairs = zip(shapes, side, strict=True)
    return [() if array is None else _logical(shape, array).shape for shape, array in pairs]


def _address(array: Array | None) -> int | None:
    return None if array is None else int(array.ctypes.data)


def aligned(dims: tuple[int, ...], dtype: Any) -> Array:
    """Return uninitialized memory as the runtime allocates it: 64-byte aligned, never null."""
    size = int(np.prod(dims, dtype=np.int64)) * np.dtype(dtype).itemsize
    block = np.zeros(size + LINE_BYTES, np.uint8)
    start = -block.ctypes.data % LINE_BYTES
    return block[start : start + size].view(dtype).reshape(dims)


def _order(shape: Shape) -> tuple[int, ...]:
    assert shape.layout is not None, f"an array in a call site has a layout: {shape}"
    return shape.layout.minor_to_major


def _in_memory(shape: Shape, array: Array) -> Array:
    moved = np.transpose(array, physical_dims(range(array.ndim), _order(shape)))
    block = aligned(moved.shape, moved.dtype)
    block[...] = moved
    return block


def _empty(shape: Shape, call: CallSite, arrays: Sequence[Array]) -> Array:
    known: dict[int | Dim, int] = {}
    for operand, array in zip((s for s in call.operands if s.is_array), arrays, strict=True):
        known.update(zip(operand.dims, array.shape, strict=True))
    symbols = {str(size): number for size, number in known.items()}
    dims = [known.get(size) or dim.evaluate(size, symbols) for size in shape.dims]
    return aligned(physical_dims(dims, _order(shape)), shape.dtype.numpy)


def _logical(shape: Shape, array: Array) -> Array:
    return np.transpose(array, logical_dims(range(array.ndim), _order(shape)))
