# SPDX-License-Identifier: Apache-2.0
"""Whether direct access to variables is safe here, and which functions may use it.

`layout_problem` compares what can be compared without touching an object: the TensorFlow series,
the exported functions, the virtual table of reference-counted objects. `is_available` runs, once,
a small program on a real variable: in place, shared with a reader, and uninitialized.

Invariant: direct access is used only if both agree; otherwise reads and writes are TensorFlow's own
ops around the launch, which is always right, and the reason is logged.
"""

from __future__ import annotations

import ctypes
import logging
import platform
from functools import cache

from ingot.frontends.tensorflow.api import capi, series, variable_objects
from ingot.frontends.tensorflow.api.modules import tensorflow
from ingot.frontends.tensorflow.api.variable_objects import DELETE_SLOT, NOTIFY_DELETED_SLOT
from ingot.frontends.tensorflow.graphs.binding import Binding
from ingot.frontends.tensorflow.graphs.captured import CapturedInput
from ingot.native.functions import external_symbols

_logger = logging.getLogger("ingot.tensorflow")

_VIRTUAL_TABLE = "_ZTVN3tsl4core10RefCountedE"
_SLOTS = {
    DELETE_SLOT: "_ZN3tsl4core10RefCountedD0Ev",
    NOTIFY_DELETED_SLOT: "_ZNK3tsl4core10RefCounted13NotifyDeletedEv",
}
_SLOTS_FROM = 2
"""A virtual table starts with the offset to top and the type information."""


@cache
def layout_problem() -> str | None:
    """Return why variables cannot be reached directly here, or None."""
    problem = _find_problem()
    if problem is not None:
        _logger.info("variables are read and written by TensorFlow's own ops: %s", problem)
    return problem


def _find_problem() -> str | None:
    if series.current() is None:
        return f"the layout of variables in TensorFlow {tensorflow.__version__} is not known"
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"the layout of variables on {platform.machine()} is not known"
    missing = [name for name in external_symbols(variable_objects) if not capi.exports(name)]
    if missing:
        return f"TensorFlow does not export {missing[0]}"
    table = capi.data_address(_VIRTUAL_TABLE)
    for slot, name in _SLOTS.items():
        entry = ctypes.c_uint64.from_address(table + 8 * (_SLOTS_FROM + slot)).value
        if entry != capi.address(name):
            return f"slot {slot} of reference-counted objects is not {name}"
    return None


def fits(inputs: tuple[CapturedInput, ...], binding: Binding) -> bool:
    """Whether a function's variables may be reached directly.

    All sizes must be static, every written variable must be read too (so that it is initialized),
    and there must be one device only.
    """
    variables = [inputs[item.input] for item in binding.parameters]
    handles = [item.handle for item in variables if item.type.dtype == "resource"]
    static = all(
        handle is not None and handle.shape is not None and None not in handle.shape
        for handle in handles
    )
    read = {item.input for item in binding.parameters}
    written = {item.variable for item in binding.results if item.variable is not None}
    return bool(handles) and static and written <= read and _one_device()


def _one_device() -> bool:
    return len(tensorflow.config.list_logical_devices()) == 1
