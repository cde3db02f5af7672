# SPDX-License-Identifier: Apache-2.0
"""Programs compiled ahead of time, run from Python: `ingot.load_executable`.

This needs numpy and ctypes, but no part of the compiler; element types that NumPy lacks (bf16, fp8)
need ml_dtypes as well. Invariant: no code of the library runs before its file is known to be for
this machine and its metadata for this loader. A library is native code: load only what you trust.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import struct
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ingot.artifact.metadata import ArrayInfo, Metadata, from_json, shape_text
from ingot.support.diagnostics import ExecutionError, ResourceError, UnsupportedError

Array: TypeAlias = np.ndarray[Any, Any]

_MACHINES = {62: "x86_64", 183: "aarch64"}
_SHARED_OBJECT = 3
_mapped: dict[int, Array] = {}
"""Weights that libraries use, by the address of a function of each."""


class AotExecutable:
    """A program of a shared library. Calling it takes and gives NumPy arrays.

    Attributes:
        path: the library.
        metadata: the signature, and the CPU that the program was compiled for.
        level: the version of the code that this CPU runs.
    """

    def __init__(self, path: Path, library: ctypes.CDLL, metadata: Metadata) -> None:
        """Hold what `load_executable` loaded."""
        self.path = path
        self.metadata = metadata
        self._library = library
        self._params = [(storage_of(array), array.dims, array) for array in metadata.params]
        self._results = [(storage_of(array), len(array.dims)) for array in metadata.outputs]
        # Tables of addresses are bytes, which take a tenth of the time of ctypes' arrays.
        self._pack_inputs = struct.Struct(f"={len(self._params)}Q").pack
        self._pack_outputs = struct.Struct(f"={len(self._results)}Q").pack
        # ctypes keeps each type of array that it ever made: these are made once.
        self._sizes_type = ctypes.c_int64 * metadata.num_sizes
        self._dims_types = [ctypes.c_int64 * max(1, len(row.dims)) for row in metadata.params]
        self._known: tuple[Any, list[tuple[int, ...]]] | None = None
        symbol = metadata.symbol
        self._prepare: Any = library[f"{symbol}_prepare"]
        self._execute: Any = library[f"{symbol}_execute"]
        self._error_msg: Any = library[f"{symbol}_error_msg"]
        self._prepare.argtypes = (ctypes.c_void_p,) * 2
        self._execute.argtypes = (ctypes.c_void_p,) * 3
        self._error_msg.argtypes = (ctypes.c_int32,)
        self._error_msg.restype = ctypes.c_char_p
        find_level: Any = library[f"{symbol}_level"]
        find_level.restype = ctypes.c_char_p
        self.level: str = find_level().decode()
        self._set_weights: Any = None
        if metadata.weights != "inside":
            self._set_weights = library[f"{symbol}_set_weights"]
            self._set_weights.argtypes = (ctypes.c_void_p, ctypes.c_int64)

    def set_threads(self, count: int) -> int:
        """Set how many threads executions use, the caller's included; return the number in use.

        Raises:
            UnsupportedError: the library has no thread pool.
        """
        symbol, metadata = self.metadata.symbol, self.metadata
        if metadata.threads == "none":
            raise UnsupportedError(
                f"{self.path} has no thread pool of its own",
                hint="compile it with --threads=own",
            )
        return int(self._library[f"{symbol}_set_threads"](ctypes.c_int32(count)))

    def load_weights(self, path: str | os.PathLike[str] | None = None) -> None:
        """Map the file of weights, for a library that has them beside it or from the caller.

        Args:
            path: the file; default: the one of `metadata.weights_file` beside the library.

        Raises:
            ResourceError: INGOT0411 the file cannot be read, or it is not this library's.
        """
        if self._set_weights is None:
            return
        file = self.path.with_name(self.metadata.weights_file) if path is None else Path(path)
        try:
            data = np.memmap(file, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise ResourceError(
                f"the weights of {self.path} cannot be read from {file}: {error}",
                code="INGOT0411",
                hint="give the file: ingot.load_executable(path, weights=...)",
            ) from error
        status = self._set_weights(data.ctypes.data, data.nbytes)
        if status:
            text = self._error_msg(status).decode()
            raise ResourceError(f"{file}: {text}", code="INGOT0411")
        # The library keeps the first address until the end: nothing unloads it.
        library = ctypes.cast(self._set_weights, ctypes.c_void_p).value or 0
        _mapped.setdefault(library, data)

    def __call__(self, *args: Any) -> Any:
        """Run the program; one result is returned as it is, several as a tuple.

        Args:
            args: arrays of the element types and dimensions of `metadata.params`.

        Raises:
            ExecutionError: an argument does not fit, or a check of the program failed.
            ResourceError: out of memory.
        """
        params = self._params
        if len(args) != len(params):
            raise ExecutionError(
                f"'{self.metadata.symbol}' takes {len(params)} arguments, not {len(args)}"
            )
        arrays = [
            given
            if type(given) is np.ndarray
            and given.dtype == storage
            and given.shape == dims
            and given.flags.c_contiguous
            and given.flags.aligned
            else _fitting(row, storage, given)
            for (storage, dims, row), given in zip(params, args, strict=True)
        ]
        sizes, shapes = self._known or self._prepared(arrays)
        results = [
            np.empty(shape, storage)
            for shape, (storage, _) in zip(shapes, self._results, strict=True)
        ]
        inputs = self._pack_inputs(*map(_address, arrays))
        outputs = self._pack_outputs(*map(_address, results))
        status = self._execute(inputs, outputs, sizes)
        if status:
            self._require(status)
        return results[0] if len(results) == 1 else tuple(results)

    def _prepared(self, arrays: list[Array]) -> tuple[Any, list[tuple[int, ...]]]:
        """Return an execution's sizes and the shapes of its results, cached by argument shapes."""
        sizes = self._sizes_type()
        dims = [kind(*array.shape) for kind, array in zip(self._dims_types, arrays, strict=True)]
        self._require(self._prepare(self._pack_inputs(*map(ctypes.addressof, dims)), sizes))
        at, shapes = self.metadata.output_dims, list[tuple[int, ...]]()
        for _, rank in self._results:
            shapes.append(tuple(sizes[at : at + rank]))
            at += rank
        if self.metadata.is_static:
            self._known = sizes, shapes
        return sizes, shapes

    def _require(self, status: int) -> None:
        if status == 0:
            return
        text = self._error_msg(status).decode()
        kind = ResourceError if status == -1 else ExecutionError
        raise kind(f"'{self.metadata.symbol}': {text}")

    def __repr__(self) -> str:
        params = ", ".join(map(shape_text, self.metadata.params))
        outputs = ", ".join(map(shape_text, self.metadata.outputs))
        return f"AotExecutable({self.metadata.symbol}: ({params}) -> ({outputs}))"


def load_executable(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    threads: int | None = None,
) -> AotExecutable:
    """Load a shared library that `ingot aot` wrote. It is native code: load only what you trust.

    Args:
        path: the library.
        weights: its file of weights, if the library has none; default: beside the library.
        threads: the threads that it runs on, if it has a pool of its own; default: one.

    Raises:
        ResourceError: INGOT0411 a file cannot be read or loaded, or is not this library's.
        UnsupportedError: it is no such library, it is for another machine, this CPU lacks
            instructions of its code, or another version of Ingot wrote it in another format.
    """
    file = Path(path).absolute()
    _require_machine(file)
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise ResourceError(f"{path} cannot be loaded: {error}", code="INGOT0411") from error
    describe: Any = getattr(library, "ingot_aot_metadata", None)
    if describe is None:
        raise UnsupportedError(
            f"{path} is a shared library, and not one of Ingot's",
            hint="make one with `ingot aot MODEL -o NAME`",
        )
    describe.restype = ctypes.c_char_p
    metadata = from_json(describe().decode(), str(path))
    supported: Any = library[f"{metadata.symbol}_supported"]
    if not supported():
        raise UnsupportedError(
            f"{path} was compiled for the CPU level '{metadata.levels[-1]}' ({metadata.cpu}), "
            "whose instructions this CPU lacks",
            hint="compile it again with a lower --level; 'plain' runs on every x86-64",
        )
    executable = AotExecutable(file, library, metadata)
    executable.load_weights(weights)
    if threads is not None:
        executable.set_threads(threads)
    return executable


def _require_machine(path: Path) -> None:
    """Raise unless a file is a shared library for this machine."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError as error:
        raise ResourceError(f"{path} cannot be read: {error.strerror}", code="INGOT0411") from error
    if len(head) < 20 or head[:6] != b"\x7fELF\x02\x01":
        raise UnsupportedError(
            f"{path} is not a shared library for 64-bit Linux",
            hint="give the libNAME.so that `ingot aot` wrote",
        )
    kind, machine = struct.unpack_from("<HH", head, 16)
    if kind != _SHARED_OBJECT:
        raise UnsupportedError(
            f"{path} is an object file, which a linker joins to a program",
            hint="load the .so file beside it",
        )
    name = _MACHINES.get(machine, f"ELF machine {machine}")
    if name != platform.machine():
        raise UnsupportedError(f"{path} is for {name}; this machine is {platform.machine()}")


def storage_of(array: ArrayInfo) -> np.dtype[Any]:
    """Return the NumPy type of an argument or result.

    Raises:
        UnsupportedError: NumPy lacks it, and ml_dtypes is not installed.
    """
    try:
        return np.dtype(array.storage)
    except TypeError:
        pass
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), array.storage))
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(
            f"'{array.name}' is {shape_text(array)}, and NumPy has no such type",
            hint="install ml_dtypes",
        ) from error


def _fitting(param: ArrayInfo, storage: np.dtype[Any], given: Any) -> Array:
    """Return an argument as the program reads it: dense, row-major."""
    array: Array = np.asarray(given, None if hasattr(given, "dtype") else storage)
    rank_fits = array.ndim == len(param.dims)
    fits = rank_fits and all(
        want is None or want == size for want, size in zip(param.dims, array.shape, strict=True)
    )
    if array.dtype != storage or not fits:
        got = shape_text((str(array.dtype), array.shape))
        raise ExecutionError(f"argument '{param.name}' is {got}, and has to be {shape_text(param)}")
    aligned: Array = np.require(array, requirements=["C", "A"]).reshape(array.shape)
    return aligned


def _address(array: Array) -> int:
    """Return the address of a dense array's memory."""
    try:
        # A third of the time of NumPy's own ways.
        buffer: Any = array
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    except (TypeError, ValueError):  # Read-only, empty, or of a type that buffers lack.
        return int(array.__array_interface__["data"][0])
