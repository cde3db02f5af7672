# SPDX-License-Identifier: Apache-2.0
"""The arguments of a `buffer_callback`: the memory of operands and results, and a context.

jaxlib's own classes of these names have no constructor, so these have their attributes and methods
instead. Invariant: a buffer is valid during the call; operands may not be written through it.

Source: jaxlib/ffi.cc (PyFfiAnyBuffer, PyFfiContext).
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Buffer:
    """Memory of one operand or result.

    Attributes:
        writeable: whether it is a result's.
    """

    def __init__(self, array: Array, writeable: bool) -> None:
        self.writeable = writeable
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return self._array.ndim

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the memory as an array; a copy only where one is asked for."""
        found = self._array.view()
        found.flags.writeable = self.writeable
        return np.array(found, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """Return the memory as a DLPack capsule."""
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """Return the device of the memory: the CPU."""
        return self._array.__dlpack_device__()


class ExecutionContext:
    """The execution that a callback is part of."""

    @property
    def stage(self) -> Any:
        """The stage, always that of execution: there is no preparation."""
        return importlib.import_module("jax._src.lib").ffi.ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """The GPU's stream.

        Raises:
            JaxRuntimeError: this is a CPU.
        """
        error = importlib.import_module("jax").errors.JaxRuntimeError
        raise error("UNIMPLEMENTED: XLA FFI GPU context is not available")
