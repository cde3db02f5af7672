# SPDX-License-Identifier: Apache-2.0
"""The native calls of one function: machine code from EagerTensors to EagerTensors.

A function without effects, handles and lists needs no op of TensorFlow to run eagerly, and an op
that TensorFlow never saw costs it a millisecond. `NativeCalls` compiles the function for the ranks
of given tensors and returns the built-in that runs it (`eager_call.make_native_call`), the same one
for all who ask for the same sizes: the first call of a function, calls under a tape, and the
remembered calls of `fast_call`. Where the function is specialised on values of inputs, the built-in
tries the variants in turn; values that none is for are compiled for by `run`, and added.

Invariant: a native call is made only for exactly the types and sizes that it was asked for; where
there is none, or it gives `ORDINARY_WAY`, the launch op does the work and reports what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ingot.frontends.tensorflow.api.errors import status_error
from ingot.frontends.tensorflow.api.modules import context, ops
from ingot.frontends.tensorflow.eager.eager_call import NativeCall, make_native_call
from ingot.frontends.tensorflow.graphs.binding import Binding
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction
from ingot.frontends.tensorflow.launches.body import launch_output_types, type_number
from ingot.frontends.tensorflow.launches.launch import Launch
from ingot.frontends.tensorflow.launches.launch_records import NO_VARIANT, TRY_EXACT
from ingot.frontends.tensorflow.variants.specialisation import Reader
from ingot.runtime.programs.staged import StagedProgram

Call = Callable[..., Any]

ORDINARY_WAY = NotImplemented
"""What a native call returns if it could not do the work (and did none)."""

MAX_SIGNATURES = 256
"""Remembered signatures per function; a program with more gains little."""

_EAGER_TENSOR: Any = ops.EagerTensor


class NativeCalls:
    """The native calls of one function, by what they take."""

    __slots__ = ("_calls", "_is_pure", "_launch", "_output_types", "_parameters", "_types")

    def __init__(self, function: CapturedFunction, binding: Binding, launch: Launch) -> None:
        """Start without any; nothing is compiled before it is asked for."""
        inputs = function.inputs
        self._launch = launch
        self._calls: dict[Any, NativeCall | None] = {}
        self._parameters = [item.input for item in binding.parameters]
        touches = binding.has_effects or binding.handed_on or not binding.results
        self._is_pure = (
            not touches
            and not any(inputs[item].handle for item in self._parameters)
            and not any(kind.dtype == "variant" for kind in function.output_types)
        )
        if self._is_pure:
            self._types = [type_number(inputs[item].type.dtype) for item in self._parameters]
            self._output_types = launch_output_types(function, binding)

    def run(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Run on the function's flat inputs; None if that is work for the launch op.

        Raises:
            tf.errors.OpError: the function cannot be compiled.
        """
        runtime = context.context()
        if not self._is_pure or runtime.device_name or runtime.op_callbacks:
            return None
        sources = range(len(inputs))
        call = self.find(sources, inputs)
        result = ORDINARY_WAY if call is None else call(*inputs)
        if result is ORDINARY_WAY and call is not None and self._add(sources, inputs):
            result = call(*inputs)
        if result is ORDINARY_WAY:
            return None
        return [result] if len(self._output_types) == 1 else list(result)

    def find(self, sources: Sequence[int | Any], args: Sequence[Any]) -> Call | None:
        """Return the native call for arguments like these; None if there is none.

        Args:
            sources: per flat input of the function the index of the argument, or the captured
                EagerTensor.
            args: the arguments of a call.
        """
        found = self._look(sources, args)
        if found is None:
            return None
        key, chosen, tensors = found
        if key not in self._calls:
            made = self._make(chosen, tensors, key[1])
            if len(self._calls) >= MAX_SIGNATURES:
                return None if made is None else made.call
            self._calls[key] = made
        known = self._calls[key]
        return None if known is None else known.call

    def _look(self, sources: Sequence[int | Any], args: Sequence[Any]) -> Any:
        """Return (key, chosen, tensors) for what a call would be given; None if it cannot be."""
        if not self._is_pure:
            return None
        chosen = [sources[item] for item in self._parameters]
        tensors = [args[item] if isinstance(item, int) else item for item in chosen]
        if any(type(item) is not _EAGER_TENSOR for item in tensors):
            return None
        sizes = tuple([item._shape_tuple() for item in tensors])
        key = (tuple([i if isinstance(i, int) else id(i) for i in chosen]), sizes)
        if [item._datatype_enum() for item in tensors] != self._types:
            return None
        return key, chosen, tensors

    def _add(self, sources: Sequence[int | Any], args: Sequence[Any]) -> bool:
        """Let the native call that refused run these values too, if they were the reason."""
        key, chosen, tensors = self._look(sources, args)
        known = self._calls.get(key)
        if known is None or not known.keys[0].values or len(known.keys) >= MAX_SIGNATURES:
            return False
        read = _reader(tensors)
        if any(item.fits(key[1], read) for item in known.keys):
            return False
        other = self._make(chosen, tensors, key[1])
        if other is not None:
            known.add(other)
        return other is not None

    def _make(self, chosen: list[int | Any], tensors: list[Any], sizes: Any) -> NativeCall | None:
        if len(context.context().list_logical_devices()) != 1:
            return None
        read = _reader(tensors)
        work = sum(tensor.dtype.size * math.prod(tensor._shape_tuple()) for tensor in tensors)
        # A program for open sizes may refuse these; one for exactly these sizes does not.
        for wanted in (NO_VARIANT, TRY_EXACT):
            report = self._launch.compile_for(sizes, read, wanted)
            if report is not None:
                raise status_error(*report)
            compiled, key = self._launch.find(sizes, read)
            program = compiled.program
            if isinstance(program, StagedProgram):
                return None  # Its results have sizes when it is done: the op hands them out.
            made = make_native_call(program, key, self._output_types, chosen, sizes, work)
            if made is not None:
                return made
        return None


def _reader(tensors: Sequence[Any]) -> Reader:
    """Return what reads the memory of EagerTensors."""

    def read(parameter: int, count: int) -> bytes | None:
        data: bytes = tensors[parameter].numpy().tobytes()
        return data if len(data) == count else None

    return read
