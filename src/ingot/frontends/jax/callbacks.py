# SPDX-License-Identifier: Apache-2.0
"""Host callbacks: `pure_callback`, `io_callback`, `debug.print`, `buffer_callback` on Ingot.

JAX lowers a callback to a custom call with the number of the function among the module's
`host_callbacks`, and passes the functions to the backend with the module. PJRT has no parameter for
them, so each gets a number of its own in this process while its module is compiled; linking the
custom call takes the function by that number and keeps it as long as the program lives.

Invariant: callbacks get copies of their operands, because they may keep them; a `buffer_callback`
sees the memory itself.

Source: jax/_src/callback.py (emit_python_callback), xla/python/callback.cc.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import io
import itertools
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ingot.frontends.jax.buffers import Buffer, ExecutionContext
from ingot.runtime.foreign.attributes import parse_attributes
from ingot.runtime.foreign.errors import set_error
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.python_targets import views
from ingot.runtime.records import CALL_FRAME
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target, register
from ingot.support.diagnostics import ExecutionError

_CONFIG = "mhlo.backend_config"
_FRAME_FUNCTION: Any = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)

_Array = np.ndarray[Any, Any]
_Function = Callable[..., Sequence[Any]]
_Run = Callable[[CallSite, _Function, list[_Array], list[_Array]], None]

_functions: dict[int, _Function] = {}
"""The callbacks of modules that are being compiled, by number."""
_numbers = itertools.count()


def install_callbacks() -> None:
    """Register the custom calls that JAX lowers callbacks to."""
    for name, run in TARGETS.items():
        link = functools.partial(link_callback, run)
        register(Target(name, evaluate=evaluator_of(link), link=link, calls_host=True))


@contextmanager
def numbered_callbacks(program: Any, functions: Sequence[Any]) -> Generator[Any]:
    """Number the callbacks of an MLIR module while it is compiled; yield the module to compile."""
    numbers = [next(_numbers) for _ in functions]
    _functions.update(zip(numbers, functions, strict=True))
    try:
        yield renumbered(program, numbers)
    finally:
        for number in numbers:
            _functions.pop(number, None)


def renumbered(program: Any, numbers: Sequence[int]) -> Any:
    """Return a copy of an MLIR module whose callbacks have their numbers in this process."""
    ir: Any = importlib.import_module("jax._src.lib.mlir").ir
    code = io.BytesIO()
    with program.context:
        program.operation.write_bytecode(code)
        copy: Any = ir.Module.parse(code.getvalue())

        def change(op: Any) -> Any:
            attributes = op.attributes
            is_call = op.name == "stablehlo.custom_call" and _CONFIG in attributes
            if is_call and attributes["call_target_name"].value in TARGETS:
                config = {item.name: item.attr for item in attributes[_CONFIG]}
                number = numbers[int(config["index"])]
                kind = ir.IntegerType.get_unsigned(64)
                config["index"] = ir.IntegerAttr.get(kind, number)
                attributes[_CONFIG] = ir.DictAttr.get(config)
            return ir.WalkResult.ADVANCE

        copy.operation.walk(change)
    return copy


def link_callback(run: _Run, call: CallSite) -> LinkedCall:
    """Return the code of one call of a callback, which `run` calls.

    Raises:
        ExecutionError: INGOT0505, the function is not of a module that is being compiled.
    """
    number = int(parse_attributes(call.config)["index"].value)
    function = _functions.get(number)
    if function is None:
        raise ExecutionError(
            "a program with Python callbacks cannot be loaded without the functions",
            op_name=call.op_name,
            location=call.location,
            hint="compile the program again in this process",
        )
    adapter = _FRAME_FUNCTION(functools.partial(_guarded, run, call, function))
    address = ctypes.cast(adapter, ctypes.c_void_p).value or 0
    return LinkedCall(address, adapter)


def _guarded(run: _Run, call: CallSite, function: _Function, frame: int) -> int:
    """Call `function` for one frame; return 0, or 1 after recording the error."""
    try:
        given = CALL_FRAME.structure.from_address(frame)
        operands = views(call.operands, given.operands, given.operand_dims)
        run(call, function, operands, views(call.results, given.results, given.result_dims))
    except BaseException as problem:
        text = "".join(traceback.format_exception(problem))
        set_error(f"CpuCallback error calling callback: {text}", problem)
        return 1
    return 0


def _with_values(
    call: CallSite, function: _Function, given: list[_Array], targets: list[_Array]
) -> None:
    """Call a function of arrays that returns arrays."""
    arrays = iter(given)
    # A callback gets None for each token, and returns a value for each of its own.
    operands = [_copy(next(arrays)) if shape.is_array else None for shape in call.operands]
    results = zip(call.results, function(*operands), strict=True)
    wanted = [value for shape, value in results if shape.is_array]
    for target, value in zip(targets, wanted, strict=True):
        target[...] = np.asarray(value)


def _with_buffers(
    call: CallSite, function: _Function, given: list[_Array], targets: list[_Array]
) -> None:
    """Call a function of an execution context, operands, and results to write."""
    for result, operand in call.aliases:
        given[operand] = targets[result]
    operands = [Buffer(array, False) for array in given]
    function(ExecutionContext(), *operands, *(Buffer(array, True) for array in targets))


def _copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a read-only copy of an operand, for a callback."""
    made = array.copy()
    made.flags.writeable = False
    return made


TARGETS: dict[str, _Run] = {
    "xla_buffer_python_cpu_callback": _with_buffers,
    "xla_ffi_partitioned_python_cpu_callback": _with_values,
    "xla_ffi_python_cpu_callback": _with_values,
    "xla_ffi_partitioned_python_gpu_callback": _with_values,
    "xla_ffi_python_gpu_callback": _with_values,
}
"""The custom calls that JAX lowers callbacks to, and the functions that call the callback."""
