# SPDX-License-Identifier: Apache-2.0
"""`Program`: a compiled program that can be called, from Python and from native code.

It is made of a `ProgramInfo`, the addresses of its two functions and its constants. `program.call`
is a built-in function of machine code (`python.call`); native callers pass `program.record_address`
to `ingot_prepare`, `ingot_execute` and `ingot_call`. Invariant: the record keeps alive all it
points to (tables, constants, code), and `call` keeps the record alive, so nothing dangles.

Example (with a linked library that exports `add_sizes` and `add_run`):
    program = Program.from_library(info, library)
    total = program(x, y)                  # new NumPy arrays; a tuple if there are several
    state = program(state, donate=[0])     # the output may take the memory of argument 0
"""

from __future__ import annotations

import ctypes
import warnings
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Protocol

import numpy as np

from ingot.artifact.abi import DATA_ALIGNMENT, ProgramInfo
from ingot.artifact.steps import COPY, Steps
from ingot.hlo.dtype import dtype
from ingot.runtime.arguments.convert import AnyArray, conform_all
from ingot.runtime.native import native_runtime
from ingot.runtime.programs.execution import PythonHalf, Result, python_half, status_error
from ingot.runtime.python_api import fill_python_record, layout_problems, make_method
from ingot.runtime.records import OUTPUT, PARAM, PROGRAM
from ingot.support.diagnostics import IngotError
from ingot.support.forking import ForkLock, defers_fork

DEFAULT_RELEASE_GIL_BYTES = 64 << 10
"""Bytes (some 2 us of work) from which a call runs without the GIL."""

_lock = ForkLock()


class CodeLibrary(Protocol):
    """A source of function addresses: `ingot.llvm.linking.Library`, or a loaded AOT library."""

    def address(self, symbol: str) -> int:
        """Return the address of a symbol."""
        ...


class Program:
    """A linked program; see the module's docstring."""

    __slots__ = ("_half", "_record", "call", "info")

    @defers_fork
    def __init__(
        self,
        info: ProgramInfo,
        sizes_address: int,
        run_address: int,
        constants: bytes | np.ndarray[Any, Any] | None = None,
        *,
        keep_alive: object = None,
        release_gil_bytes: int = DEFAULT_RELEASE_GIL_BYTES,
    ) -> None:
        """Join code and description.

        Args:
            info: the program's parameters, outputs and messages.
            sizes_address: address of `<symbol>_sizes`.
            run_address: address of `<symbol>_run`.
            constants: the constant block; copied unless it is an array aligned to 64 bytes.
            keep_alive: the owner of the code; held as long as the program can be called.
            release_gil_bytes: bytes from which a call runs without the GIL; 0 for a program that
                may wait for other threads of Python.
        """
        with _lock:
            runtime, self._half, method = _calling()
        self.info = info
        record: Any = PROGRAM.structure()
        address, block = _constant_block(constants)
        params, outputs, kept = tables_of(info)
        values = {
            "sizes": sizes_address,
            "run": run_address,
            "constants": address,
            "runtime": runtime.record,
            "num_params": len(info.params),
            "num_outputs": len(info.outputs),
            "num_symbols": info.num_symbols,
            "num_sizes": info.num_sizes,
            "params": ctypes.addressof(params),
            "outputs": ctypes.addressof(outputs),
            "release_gil_bytes": release_gil_bytes,
        }
        for name, value in values.items():
            setattr(record, name, value)
        record.info, record.error_of = info, partial(status_error, info)
        record.kept = (params, outputs, kept, block, keep_alive)
        self._record = record
        self.call: Callable[..., Result] = method(record)

    @classmethod
    def from_library(
        cls,
        info: ProgramInfo,
        library: CodeLibrary,
        constants: bytes | np.ndarray[Any, Any] | None = None,
        *,
        release_gil_bytes: int = DEFAULT_RELEASE_GIL_BYTES,
    ) -> Program:
        """Return the program `info.symbol` of a linked library, which is kept alive."""
        return cls(
            info,
            library.address(info.sizes_symbol),
            library.address(info.run_symbol),
            constants,
            keep_alive=library,
            release_gil_bytes=release_gil_bytes,
        )

    @classmethod
    def from_steps(
        cls,
        info: ProgramInfo,
        steps: Steps,
        addresses: Mapping[str, int],
        constants: bytes,
        *,
        keep_alive: object,
        release_gil_bytes: int = DEFAULT_RELEASE_GIL_BYTES,
    ) -> Program:
        """Return a program of steps whose functions have these addresses."""
        runtime = native_runtime()
        return cls(
            info,
            runtime.address("ingot_steps_sizes"),
            runtime.address("ingot_steps_run"),
            steps.block({**addresses, COPY: runtime.address(COPY)}, constants),
            keep_alive=keep_alive,
            release_gil_bytes=release_gil_bytes,
        )

    @property
    def record_address(self) -> int:
        """Address of the `IngotProgram` record; valid while the program lives."""
        return ctypes.addressof(self._record)

    def __call__(self, *args: Any, donate: Collection[int] = ()) -> Result:
        """Run the program; one output is returned as it is, several as a tuple.

        Args:
            args: NumPy arrays, or whatever converts to them (DLPack, `__array__`, numbers, lists).
            donate: indices of arguments whose memory outputs may take; do not use them after.

        Raises:
            ExecutionError: an argument does not fit, a shape constraint or a run check failed;
                INGOT0514, `donate` does not name different arguments with memory of their own.
            ResourceError: out of memory.
        """
        if (donate.__class__ is tuple or donate.__class__ is list) and not donate:
            return self.call(*args)
        return self._half.run_arrays(self._record, conform_all(self.info, args), donate)

    def run_on(self, runtime: int, *args: Any, donate: Collection[int] = ()) -> Result:
        """Run the program as one of several devices: with the runtime record at `runtime`."""
        return self._half.run_arrays(self._record, conform_all(self.info, args), donate, runtime)

    def run_through(self, function: Any) -> None:
        """Let all later executions call a C function of ctypes instead of `<symbol>_run`."""
        self._record.kept = (*self._record.kept, function)
        self._record.run = ctypes.cast(function, ctypes.c_void_p).value

    def error_of(self, status: int, arrays: Sequence[AnyArray] = ()) -> IngotError:
        """Return the exception for the status of an execution; it names the shapes of `arrays`."""
        return status_error(self.info, status, arrays)

    def output_shapes(self, *args: Any) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the outputs for such arguments, without running."""
        sizes = self._half.sizes(self._record, conform_all(self.info, args))
        layout = self.info.sizes_layout
        starts = [layout.output_dims(index) for index in range(len(self.info.outputs))]
        return tuple(
            tuple(sizes[start : start + len(output.dims)])
            for start, output in zip(starts, self.info.outputs, strict=True)
        )

    def __repr__(self) -> str:
        params, outputs = len(self.info.params), len(self.info.outputs)
        return f"Program({self.info.symbol!r}, {params} parameters, {outputs} outputs)"


def _constant_block(constants: bytes | np.ndarray[Any, Any] | None) -> tuple[int, object]:
    """Return an aligned address of the constants, and what owns the memory there."""
    if constants is None or len(constants) == 0:
        return 0, None
    if not isinstance(constants, bytes):
        address = int(constants.ctypes.data)
        if address % DATA_ALIGNMENT == 0 and constants.flags.c_contiguous:
            return address, constants
        constants = constants.tobytes()
    block = bytearray(len(constants) + DATA_ALIGNMENT)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    gap = -start % DATA_ALIGNMENT
    block[gap : gap + len(constants)] = constants
    return start + gap, block


def storage_of(name: str) -> np.dtype[Any]:
    """Return the NumPy type of an element type; a token is passed as an array of no elements."""
    return dtype(name).storage or np.dtype(np.bool_)


@lru_cache(maxsize=256)
def _rows(structure: Any, count: int) -> Any:
    """Return the type of an array of records, cached: it takes longer to make than to fill."""
    return structure * count


def tables_of(info: ProgramInfo) -> tuple[Any, Any, list[Any]]:
    """Return the parameter table, the output table, and the objects that they point to."""
    sizes = [-1 if dim is None else dim for param in info.params for dim in param.dims]
    dims = array("q", sizes)
    kept: list[Any] = [dims]
    address = dims.buffer_info()[0]
    params = _rows(PARAM.structure, len(info.params))()
    for number, param in enumerate(info.params):
        storage, rank = storage_of(param.dtype), len(param.dims)
        kept.append(storage)
        params[number] = (address, rank, storage.itemsize, id(storage), storage.num)
        address += rank * dims.itemsize
    outputs = _rows(OUTPUT.structure, len(info.outputs))()
    layout = info.sizes_layout
    bytes_slot, dims_slot = layout.output_bytes(0), layout.output_dims(0)
    for number, output in enumerate(info.outputs):
        storage, rank = storage_of(output.dtype), len(output.dims)
        kept.append(storage)
        alias = -1 if output.alias_param is None else output.alias_param
        slots = (bytes_slot + number, dims_slot)
        outputs[number] = (rank, storage.itemsize, *slots, alias, id(storage))
        dims_slot += rank
    return params, outputs, kept


@cache
def _calling() -> tuple[Any, PythonHalf, Callable[[Any], Callable[..., Result]]]:
    """Return the runtime, its Python half, and the function that makes a `call` for a record."""
    runtime, half = native_runtime(), python_half()
    problems = layout_problems()
    if not problems:
        fill_python_record(runtime, half.refuse, half.fail)
        return runtime, half, make_method(runtime)
    warnings.warn(
        "Ingot's fast call does not know this Python or NumPy; calls are a few microseconds "
        f"slower ({'; '.join(problems)})",
        RuntimeWarning,
        stacklevel=4,
    )
    return runtime, half, lambda record: partial(_slow_call, half, record)


def _slow_call(half: PythonHalf, record: Any, *args: Any) -> Result:
    return half.run_arrays(record, conform_all(record.info, args))
