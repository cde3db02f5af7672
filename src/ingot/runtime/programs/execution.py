# SPDX-License-Identifier: Apache-2.0
"""The Python half of a call: what the native fast path leaves to Python, and a replacement for it.

The native code calls `refuse` and `fail`; `run_arrays` does a whole call with ctypes, for donation
and if the native call cannot be used. Invariant: every status other than 0 becomes an exception
that names the program, the reason and the given shapes.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ingot.artifact.abi import CANCELLED, ProgramInfo
from ingot.hlo.dtype import dtype
from ingot.runtime.arguments.convert import (
    AnyArray,
    Array,
    array_text,
    conform_all,
    donated_indices,
    unshared,
)
from ingot.runtime.executor.execute import FIRST_CONSTRAINT, OUT_OF_MEMORY
from ingot.runtime.foreign.errors import take_error
from ingot.runtime.native import NativeRuntime, native_runtime
from ingot.runtime.python.interrupts import raise_interrupt
from ingot.support.diagnostics import ExecutionError, IngotError, InternalError, ResourceError

Record = Any
"""A program's ctypes structure, with its `ProgramInfo` as `info` and a function for its errors."""

CANCELLED_TEXT = "was ended before it was done: by Ctrl-C, by another thread, or at its deadline"

Result = Array | tuple[Array, ...]


def status_error(info: ProgramInfo, status: int, arrays: Sequence[AnyArray]) -> IngotError:
    """Return the exception for a status of the native functions."""
    given = ", ".join(array_text(array) for array in arrays)
    notes = (f"arguments: ({given})",) if arrays else ()
    if status == OUT_OF_MEMORY:
        return ResourceError(
            f"out of memory while running '{info.symbol}'",
            code="INGOT0401",
            notes=(*notes, *largest_note(info)),
            hint="use smaller sizes, or free arrays of earlier calls",
        )
    if status == CANCELLED:
        return cancelled_error(notes, f"'{info.symbol}' ")
    if status <= FIRST_CONSTRAINT:
        return sizes_error(info, status, notes, f"'{info.symbol}': ")
    message = _message(info.run_errors, status - 1, "run error")
    failure = take_error()
    if failure is None:
        error = ExecutionError(f"'{info.symbol}': {message}", code="INGOT0505", notes=notes)
        error.status = info.run_status(status)
        return error
    head, newline, facts = message.partition("\n")  # The op and its line come after the reason.
    text = f"'{info.symbol}': {head}: {failure.message.rstrip()}{newline}{facts}"
    error = ExecutionError(text, code="INGOT0505", notes=notes)
    error.__cause__ = failure.cause
    error.status = failure.status
    return error


def raise_signal_after(status: int) -> None:
    """Raise the exception of a signal handler (Ctrl-C), if it ended the execution with this status.

    Until it is raised, every execution of the main thread ends.
    """
    if status == CANCELLED:
        python = native_runtime().function("ingot_python_record", ctypes.c_void_p)
        raise_interrupt(int(python()))


def cancelled_error(notes: tuple[str, ...], who: str) -> ExecutionError:
    """Return the exception for an execution that was cancelled."""
    return ExecutionError(f"{who}{CANCELLED_TEXT}", code="INGOT0511", notes=notes)


def largest_note(info: ProgramInfo) -> tuple[str, ...]:
    """Return a note about the largest buffer, for an out-of-memory error."""
    return (f"its largest buffer is {info.largest}",) if info.largest else ()


def sizes_error(
    info: ProgramInfo, status: int, notes: tuple[str, ...], who: str = ""
) -> IngotError:
    """Return the exception for sizes that a program refuses; `who` is said before the reason."""
    number = FIRST_CONSTRAINT - status
    if number < len(info.constraints):
        return ExecutionError(f"{who}{info.constraints[number]}", code="INGOT0504", notes=notes)
    return ResourceError(
        f"{who}{info.limits[number - len(info.constraints)]}",
        code="INGOT0402",
        notes=notes,
        hint="use smaller sizes: no array of this program may be that large",
    )


def _message(messages: Sequence[str], index: int, kind: str) -> str:
    return messages[index] if index < len(messages) else f"{kind} {index}"


class PythonHalf:
    """The ctypes functions of one runtime, and calls by them."""

    def __init__(self, runtime: NativeRuntime) -> None:
        """Bind the native functions."""
        pointer, status = ctypes.c_void_p, ctypes.c_int32
        self._prepare = runtime.function("ingot_prepare", status, *[pointer] * 3)
        self._execute = runtime.function("ingot_execute_python", status, *[pointer] * 5)
        self._allocate = runtime.function("ingot_allocate", pointer, ctypes.c_int64)
        self._free = runtime.function("ingot_free", None, pointer)
        call_type = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, pointer, ctypes.c_ssize_t)
        self._call: Callable[..., Any] = call_type(runtime.address("ingot_python_call"))

    def refuse(self, record: Record, *args: Any) -> Result:
        """Convert arguments that the fast path does not take, and call it again.

        Raises:
            ExecutionError: an argument has the wrong type, rank or size.
            InternalError: the fast path refused arguments that are right.
        """
        arrays = conform_all(record.info, args)
        if all(array is value for array, value in zip(arrays, args, strict=True)):
            # Nothing to convert: a constraint is violated, and this raises the error.
            self.sizes(record, arrays)
            raise InternalError(f"'{record.info.symbol}' refuses arguments that seem to be right")
        items = (ctypes.py_object * len(arrays))(*arrays)
        return self._call(record, items, len(arrays))

    def fail(self, record: Record, status: int, *args: Array) -> None:
        """Raise the error that the status of an execution stands for."""
        raise_signal_after(status)
        raise record.error_of(status, args)

    def sizes(self, record: Record, arrays: Sequence[AnyArray]) -> list[int]:
        """Return the `sizes` array of a call; ExecutionError if a constraint is violated."""
        info: ProgramInfo = record.info
        dims = [(ctypes.c_int64 * len(array.shape))(*array.shape) for array in arrays]
        in_dims = (ctypes.c_void_p * len(dims))(*[ctypes.addressof(item) for item in dims])
        sizes = (ctypes.c_int64 * info.num_sizes)()
        status = self._prepare(ctypes.addressof(record), in_dims, sizes)
        if status:
            raise status_error(info, status, arrays)
        return list(sizes)

    def run_arrays(
        self,
        record: Record,
        arrays: Sequence[Array],
        donate: Collection[int] = (),
        runtime: int = 0,
    ) -> Result:
        """Do a whole call; outputs that alias a donated argument are that very array.

        `runtime` is the address of the runtime record to run with; default: the program's own.
        """
        info: ProgramInfo = record.info
        taken = unshared(arrays, donated_indices(len(arrays), donate))
        sizes = self.sizes(record, arrays)
        results = [
            self._output(info, index, sizes, arrays, taken) for index in range(len(info.outputs))
        ]
        status = self._execute(
            ctypes.addressof(record),
            runtime or record.runtime,
            _data_pointers(arrays),
            _data_pointers(results),
            (ctypes.c_int64 * len(sizes))(*sizes),
        )
        if status:
            self.fail(record, status, *arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def _output(
        self,
        info: ProgramInfo,
        index: int,
        sizes: Sequence[int],
        arrays: Sequence[Array],
        donate: Collection[int],
    ) -> Array:
        output, layout = info.outputs[index], info.sizes_layout
        at = layout.output_dims(index)
        shape = tuple(sizes[at : at + len(output.dims)])
        alias, storage = output.alias_param, dtype(output.dtype).numpy
        if alias is not None and alias in donate and arrays[alias].flags.writeable:
            return donated_array(arrays[alias], shape, storage)
        array = self._new_array(shape, storage)
        if array is None:
            raise status_error(info, OUT_OF_MEMORY, arrays)
        return array

    def _new_array(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Array | None:
        """Return an uninitialized array over a block of the allocator, or None."""
        size = math.prod(shape) * storage.itemsize
        address = self._allocate(size)
        return None if address is None else owned_array(address, shape, storage, self._free)


def donated_array(value: Array, shape: tuple[int, ...], storage: np.dtype[Any]) -> Array:
    """Return a donated argument as the result that took its memory."""
    return value.reshape(-1).view(storage).reshape(shape)


def owned_array(
    address: int, shape: tuple[int, ...], storage: np.dtype[Any], free: Callable[[int], None]
) -> Array:
    """Return an array over a block of the allocator, which it gives back when it is gone."""
    size = math.prod(shape) * storage.itemsize
    buffer: Any = (ctypes.c_uint8 * size).from_address(address)
    buffer.owner = _Block(address, free)
    return np.ndarray(shape, storage, buffer=buffer)


class _Block:
    """Gives a block of the allocator back when the array over it is gone."""

    __slots__ = ("_address", "_free")

    def __init__(self, address: int, free: Callable[[int], None]) -> None:
        self._address = address
        self._free = free

    def __del__(self) -> None:
        self._free(self._address)


def _data_pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])


def python_half() -> PythonHalf:
    """Return a binding to the process's runtime."""
    return PythonHalf(native_runtime())
