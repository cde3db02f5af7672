# SPDX-License-Identifier: Apache-2.0
"""Python functions as custom-call targets.

A function gets the operands as NumPy arrays and the call's attributes as keywords, and returns an
array, or a tuple with one per result. Programs reach it through a C callback that takes the GIL.

Invariant: operands are views of the program's buffers, read-only and valid during the call only;
an exception ends the execution with an `ExecutionError` that shows the function's own traceback.
"""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ingot.hlo.shape import Shape
from ingot.runtime.arguments.convert import array_at
from ingot.runtime.foreign.attributes import parse_attributes, plain_values
from ingot.runtime.foreign.errors import set_error
from ingot.runtime.records import CALL_FRAME
from ingot.semantics.call_layouts import logical_dims, physical_dims
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target
from ingot.support.diagnostics import ExecutionError

Array = np.ndarray[Any, np.dtype[Any]]
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


def python_target(name: str, function: Callable[..., Any]) -> Target:
    """Return the target of a Python function."""
    evaluate, link = partial(_evaluate, function), partial(_link, function)
    return Target(name, evaluate, link, calls_host=True)


def _keywords(call: CallSite) -> dict[str, Any]:
    """Return the function's keyword arguments: the attributes, or the unparsed text."""
    if not call.config:
        return {}
    if call.config.lstrip().startswith("{"):
        return plain_values(parse_attributes(call.config))
    return {"backend_config": call.config}


def _evaluate(function: Callable[..., Any], call: CallSite, *arrays: Array) -> tuple[Array, ...]:
    try:
        return _results(call, function(*map(_read_only, arrays), **_keywords(call)))
    except Exception as error:
        raise ExecutionError(
            f"custom call '{call.target}' failed: {_failure(error)}",
            code="INGOT0505",
            op_name=call.op_name,
            location=call.location,
        ) from error


def _link(function: Callable[..., Any], call: CallSite) -> LinkedCall:
    keywords = _keywords(call)

    def entered(address: int) -> int:
        try:
            frame = CALL_FRAME.structure.from_address(address)
            operands = map(_read_only, views(call.operands, frame.operands, frame.operand_dims))
            found = _results(call, function(*operands, **keywords))
            results = views(call.results, frame.results, frame.result_dims)
            for target, value in zip(results, found, strict=True):
                if target.shape != value.shape:
                    raise ValueError(f"a result has shape {value.shape}, not {target.shape}")
                target[...] = value
        except BaseException as error:
            set_error(_failure(error), error)
            return 1
        return 0

    callback: Any = _CALLBACK(entered)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    return LinkedCall(address or 0, callback)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _results(call: CallSite, found: Any) -> tuple[Array, ...]:
    """Return the function's results as arrays of the results' element types."""
    wanted = [shape for shape in call.results if shape.is_array]
    several: tuple[Any, ...] = tuple(found) if type(found) in (tuple, list) else (found,)
    if not wanted and found is None:
        several = ()
    if len(several) != len(wanted):
        raise TypeError(f"{len(wanted)} results are wanted, the function gave {len(several)}")
    return tuple(_result(s, np.asarray(v)) for s, v in zip(wanted, several, strict=True))


def _result(shape: Shape, value: Array) -> Array:
    element = shape.dtype.numpy
    if value.dtype != element and not np.can_cast(value.dtype, element, "same_kind"):
        raise TypeError(f"a result has elements {value.dtype}, not {element}")
    fixed = [n for n, size in enumerate(shape.dims) if isinstance(size, int)]
    same = value.ndim == shape.rank and all(value.shape[n] == shape.dims[n] for n in fixed)
    if not same:
        raise ValueError(f"a result has shape {value.shape}, not {shape}")
    return np.asarray(value, element)


def views(shapes: tuple[Shape, ...], data: int, dims: int) -> list[Array]:
    """Return the arrays of one side of a frame, with the target's dimensions."""
    return [
        _view(shape, _pointer(data, number), _pointer(dims, number))
        for number, shape in enumerate(shapes)
        if shape.is_array
    ]


def _pointer(base: int, number: int) -> int:
    return ctypes.c_void_p.from_address(base + 8 * number).value or 0


def _view(shape: Shape, data: int, dims: int) -> Array:
    rank = shape.rank
    sizes = tuple((ctypes.c_int64 * rank).from_address(dims)) if rank else ()
    order = shape.layout.minor_to_major if shape.layout is not None else tuple(range(rank))[::-1]
    lying = array_at(data, physical_dims(sizes, order), shape.dtype.numpy)
    return np.transpose(lying, logical_dims(range(rank), order))


def _failure(error: BaseException) -> str:
    """Return the message of a failure: the exception with the function's own frames."""
    trace = error.__traceback__
    # The first frame is this module's.
    frames = traceback.format_tb(trace.tb_next if trace is not None else None)
    kind = "".join(traceback.format_exception_only(error)).strip()
    return f"{kind}\n{''.join(frames)}".rstrip()
