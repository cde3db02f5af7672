# SPDX-License-Identifier: Apache-2.0
"""Arguments that do not have the form of the fast path: converted, without a copy where possible.

This is the slow path of a call. Tensors and arrays must have the program's element type (a silent
cast would hide a bug); Python numbers and lists take it if they fit, as everywhere in NumPy. Other
values raise ExecutionError, which tells the argument's index, the expected and the given type.
Invariant: the result is exactly what the fast path takes: an `np.ndarray` itself, the canonical
dtype object, C-contiguous, aligned, static dims equal.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Collection, Sequence
from typing import Any, Protocol, cast

import numpy as np

from ingot.artifact.abi import Dims, ParamInfo, ProgramInfo
from ingot.hlo.dtype import DTYPES, Kind, dtype
from ingot.runtime.arguments.dlpack import import_tensor
from ingot.support.diagnostics import ExecutionError
from ingot.support.text import counted

Array = np.ndarray[Any, Any]


class AnyArray(Protocol):
    """An array in the memory of the host or of a device."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        ...


_NAMES = {row.storage: row.name for row in DTYPES.values() if row.storage is not None}

# The kinds of element type that a Python number may become.
_WEAK_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_KIND_RANK = {
    Kind.PRED: 0,
    Kind.SIGNED: 1,
    Kind.UNSIGNED: 1,
    Kind.FLOAT: 2,
    Kind.COMPLEX: 3,
}


def shape_text(name: str, dims: Dims) -> str:
    """Return `f32[?,3]`: the element type and dims, `?` where symbolic."""
    return f"{name}[{','.join('?' if dim is None else str(dim) for dim in dims)}]"


def array_text(array: AnyArray) -> str:
    """Return `f32[4,3]` for an array; NumPy's own name for types that HLO lacks."""
    return shape_text(_NAMES.get(array.dtype, str(array.dtype)), array.shape)


def array_at(address: int, sizes: Sequence[int], storage: np.dtype[Any]) -> Array:
    """Return the dense row-major array at an address; it does not own the memory.

    Args:
        address: of the first element; 0 is allowed for an empty array.
        sizes: the dimensions.
        storage: NumPy's type of the elements.
    """
    count = math.prod(sizes) * storage.itemsize
    memory: Any = (ctypes.c_uint8 * count).from_address(address) if count else bytearray()
    return np.frombuffer(memory, storage).reshape(sizes)


def conform_all(info: ProgramInfo, values: Sequence[Any]) -> list[Array]:
    """Return all arguments as the fast path takes them.

    Raises:
        ExecutionError: INGOT0501, there are too few or too many; else as `conform`.
    """
    require_count(info, values)
    return [
        conform(value, index, param)
        for index, (value, param) in enumerate(zip(values, info.params, strict=True))
    ]


def require_count(info: ProgramInfo, values: Sequence[Any]) -> None:
    """Refuse a wrong number of arguments.

    Raises:
        ExecutionError: INGOT0501.
    """
    if len(values) != len(info.params):
        expected = ", ".join(shape_text(item.dtype, item.dims) for item in info.params)
        raise ExecutionError(
            f"'{info.symbol}' takes {counted(len(info.params), 'argument')}, "
            f"but {'1 was' if len(values) == 1 else f'{len(values)} were'} given",
            code="INGOT0501",
            notes=(f"expected: ({expected})",),
        )


def donated_indices(count: int, donate: Any) -> frozenset[int]:
    """Return the indices of the arguments that are donated, of `count` arguments.

    Raises:
        ExecutionError: INGOT0514, `donate` is not a collection of different indices of arguments.
    """
    if isinstance(donate, str) or not isinstance(donate, Collection):
        raise _bad_donation(f"{donate!r} is no list of indices")
    indices = list(cast("Collection[Any]", donate))
    for index in indices:
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise _bad_donation(f"{index!r} is not the index of an argument")
        if not 0 <= index < count:
            raise _bad_donation(f"there is no argument {index}, there are {count}")
    found = frozenset(map(int, indices))
    if len(found) != len(indices):
        raise _bad_donation(f"{donate!r} has an index twice")
    return found


def unshared(arrays: Sequence[Array], taken: Collection[int]) -> frozenset[int]:
    """Return the donated arguments whose memory no other argument shares: only those are taken."""
    return frozenset(
        index
        for index in taken
        if not any(
            np.may_share_memory(arrays[index], array)
            for other, array in enumerate(arrays)
            if other != index
        )
    )


def _bad_donation(message: str) -> ExecutionError:
    return ExecutionError(
        f"donate: {message}",
        code="INGOT0514",
        hint="give the indices of the arguments whose memory results may take: donate=[0, 2]",
    )


def conform(value: Any, index: int, param: ParamInfo) -> Array:
    """Return one argument as the fast path takes it."""
    array = _as_array(value, index, param)
    require_fit(array, index, param)
    return _canonical(array, dtype(param.dtype).numpy)


def require_fit(array: AnyArray, index: int, param: ParamInfo) -> None:
    """Refuse an array whose element type or shape is not the parameter's.

    Raises:
        ExecutionError: INGOT0502, the element type; INGOT0503, the shape.
    """
    if array.dtype != dtype(param.dtype).numpy:
        raise _mismatch(index, param, array_text(array), "INGOT0502", _convert_hint(param))
    fits = len(array.shape) == len(param.dims) and all(
        wanted is None or wanted == given
        for wanted, given in zip(param.dims, array.shape, strict=True)
    )
    if not fits:
        raise _mismatch(index, param, array_text(array), "INGOT0503")


def _canonical(array: Array, expected: np.dtype[Any]) -> Array:
    """Return the same values in the layout and the very dtype object of the fast path."""
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    if not (array.flags.c_contiguous and array.flags.aligned):
        return np.array(array, dtype=expected, order="C", copy=True)
    return array if array.dtype is expected else array.view(expected)


def _as_array(value: Any, index: int, param: ParamInfo) -> Array:
    if isinstance(value, np.ndarray | np.generic):
        _refuse_masked(value, index, param)
        array: Array = np.asanyarray(cast("Any", value))
        # Types are compared up to byte order: other programs' files are big-endian at times.
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if isinstance(value, bool | int | float | complex | list | tuple):
        return _from_python(value, index, param)
    problems: list[str] = []
    for attribute, convert in _CONVERSIONS:
        if hasattr(value, attribute):
            try:
                return convert(value)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                problems.append(f"{attribute}: {error}")
    raise ExecutionError(
        f"argument {_label(index, param)}: cannot read a value of type {_type_name(value)}",
        code="INGOT0506",
        notes=(f"expected {shape_text(param.dtype, param.dims)}", *problems),
        hint="pass a NumPy array, or an object with __dlpack__ or __array__ in the CPU's memory",
    )


def _through_numpy(value: Any) -> Array:
    return np.asarray(value)


_CONVERSIONS = (
    ("__dlpack__", import_tensor),
    ("__array__", _through_numpy),
    ("__array_interface__", _through_numpy),
)


def _from_python(value: Any, index: int, param: ParamInfo) -> Array:
    """Return Python numbers as the program's type, if that type can hold such numbers."""
    target = dtype(param.dtype)
    _refuse_masked(value, index, param)
    try:
        natural = np.asarray(value)
        if natural.dtype == target.numpy:
            return natural
        rank = _WEAK_RANK.get(natural.dtype.kind)
        if natural.size == 0 or (rank is not None and rank <= _KIND_RANK[target.kind]):
            return np.asarray(value, dtype=target.numpy)
    except (OverflowError, ValueError, TypeError) as error:
        raise _mismatch(index, param, f"{_type_name(value)}: {error}", "INGOT0506") from None
    raise _mismatch(index, param, f"Python {_type_name(value)} {array_text(natural)}", "INGOT0502")


def _refuse_masked(value: Any, index: int, param: ParamInfo) -> None:
    """Refuse lists that hold masked values, which NumPy turns into the data behind the mask."""
    if isinstance(value, np.ma.MaskedArray):
        raise ExecutionError(
            f"argument {_label(index, param)}: a masked array, and no program knows of masks",
            code="INGOT0506",
            notes=(f"expected {shape_text(param.dtype, param.dims)}",),
            hint="fill it (array.filled(0)), or pass data and mask as two arguments",
        )
    if isinstance(value, list | tuple):
        for part in cast("Sequence[Any]", value):
            if not isinstance(part, bool | int | float | complex):
                _refuse_masked(part, index, param)


def _type_name(value: Any) -> str:
    kind = cast("type[Any]", type(value))
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _label(index: int, param: ParamInfo) -> str:
    return f"{index} ('{param.name}')" if param.name else str(index)


def _mismatch(index: int, param: ParamInfo, got: str, code: str, hint: str = "") -> ExecutionError:
    expected = shape_text(param.dtype, param.dims)
    return ExecutionError(
        f"argument {_label(index, param)}: expected {expected}, got {got}", code=code, hint=hint
    )


def _convert_hint(param: ParamInfo) -> str:
    """Return how to convert an array to the element type of a parameter."""
    return f"arrays are not converted; use array.astype('{dtype(param.dtype).numpy.name}')"
