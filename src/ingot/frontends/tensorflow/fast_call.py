# SPDX-License-Identifier: Apache-2.0
"""Eager calls of compiled functions without TensorFlow's dispatch.

TensorFlow spends tens of microseconds in Python to find the concrete function of a call. The
patched `Function.__call__` remembers it: the key is the types and sizes of the tensors and the
values of plain Python arguments, all positional. A remembered call is either native (machine code
from EagerTensor to EagerTensor, for functions that touch no variable) or direct (TensorFlow's
runtime runs the function by name).

Invariants: a call is remembered only after it went the ordinary way without tracing, with exactly
the tensors of the call as inputs; it is used only outside of graphs, tapes, device scopes,
distribution strategies and op callbacks. Anything else, and any failure, goes the ordinary way.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ingot.frontends.tensorflow.assertion_values import call_attributes
from ingot.frontends.tensorflow.modules import (
    atomic_function,
    context,
    eager_function_run,
    execute,
    ops,
    pywrap_tfe,
)
from ingot.frontends.tensorflow.native_calls import MAX_SIGNATURES, ORDINARY_WAY, Call
from ingot.frontends.tensorflow.replacement import Replacement

_PLAIN = (bool, int, str, type(None))
_recorder = threading.local()


class _Record:
    """What happened in the ordinary call of a function."""

    __slots__ = ("captures", "concrete", "inputs")

    def __init__(self) -> None:
        self.concrete: Any = None
        self.inputs: Sequence[Any] = ()
        self.captures: Sequence[Any] = ()


class FastCalls:
    """The remembered calls of all functions, and the patched methods that use them."""

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._calls: dict[int, dict[Any, Call | None]] = {}
        self._tensor_type = ops.EagerTensor
        self._thread_data = context.context()._thread_local_data
        self._global_graph = ops.get_default_graph()

    def function_call(self, original: Any) -> Any:
        """Return the `Function.__call__` that uses remembered calls."""
        calls = self._calls
        tape_is_empty = pywrap_tfe.TFE_Py_TapeSetIsEmpty
        thread_data = self._thread_data

        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if kwargs or not function._jit_compile or not tape_is_empty():
                return original(function, *args, **kwargs)
            if not thread_data.is_eager or thread_data.device_name or thread_data.op_callbacks:
                return original(function, *args, **kwargs)
            known = calls.get(id(function))
            if known is None:
                known = self._start(function)
            try:
                key: Any = tuple([(item._datatype_enum(), item._shape_tuple()) for item in args])
            except AttributeError:
                key = self._mixed_key(args)
            call = known.get(key)
            if call is not None and self._ordinary_conditions():
                result = call(*args)
                return original(function, *args) if result is ORDINARY_WAY else result
            if key is not None and key not in known:
                return self._call_and_remember(original, function, args, key, known)
            return original(function, *args)

        return __call__

    def concrete_call(self, original: Any) -> Any:
        """Return the `ConcreteFunction._call_flat` that tells the recorder what is called."""

        def _call_flat(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
            record: _Record | None = getattr(_recorder, "record", None)
            if record is not None:
                _recorder.record = None
                record.concrete, record.inputs = function, tensor_inputs
                record.captures = captured_inputs
            return original(function, tensor_inputs, captured_inputs)

        return _call_flat

    def _start(self, function: Any) -> dict[Any, Call | None]:
        number = id(function)
        known = self._calls[number] = {}
        weakref.finalize(function, self._calls.pop, number, None)
        return known

    def _ordinary_conditions(self) -> bool:
        return not (
            eager_function_run.RUN_FUNCTIONS_EAGERLY
            or self._global_graph._distribution_strategy_stack
        )

    def _mixed_key(self, args: Sequence[Any]) -> Any:
        """Return the key of tensors among plain values, or None if something else is there."""
        key: list[Any] = []
        for item in args:
            if type(item) is self._tensor_type:
                key.append((item._datatype_enum(), item._shape_tuple()))
            elif type(item) in _PLAIN:
                key.append((type(item), item))
            else:
                return None
        return tuple(key)

    def _call_and_remember(
        self,
        original: Any,
        function: Any,
        args: Sequence[Any],
        key: Any,
        known: dict[Any, Call | None],
    ) -> Any:
        traced = function.experimental_get_tracing_count()
        record = _recorder.record = _Record()
        try:
            result = original(function, *args)
        finally:
            _recorder.record = None
        ordinary = self._ordinary_conditions() and len(known) < MAX_SIGNATURES
        if ordinary and function.experimental_get_tracing_count() == traced:
            sources = self._sources(args, record)
            if sources is not None:
                known[key] = _make_call(record, sources, args)
        return result

    def _sources(self, args: Sequence[Any], record: _Record) -> list[int | Any] | None:
        """Return, per flat input, the argument that it is or the captured tensor.

        None if that cannot be told: a converted argument, a late capture. Inputs are in the order
        of the arguments, so the same tensor is found again behind where it was found.
        """
        concrete = record.concrete
        if concrete is None or concrete._func_graph.deferred_external_captures:
            return None
        indices: dict[int, list[int]] = {}
        for at, item in enumerate(args):
            if type(item) is self._tensor_type:
                indices.setdefault(id(item), []).append(at)
        if len(record.inputs) != sum(map(len, indices.values())):
            return None
        sources: list[int | Any] = []
        for item in record.inputs:
            found = indices.get(id(item))
            if not found:
                return None
            sources.append(found.pop(0))
        if any(type(item) is not self._tensor_type for item in record.captures):
            return None
        return [*sources, *record.captures]


def _make_call(record: _Record, sources: list[int | Any], args: Sequence[Any]) -> Call | None:
    atomic = record.concrete._inference_function
    replacement: Replacement | None = getattr(atomic, "ingot_replacement", None)
    if replacement is None or _has_handles(atomic):
        return None
    pack = _packer(record.concrete)
    one_op = replacement.one_op
    native = None if one_op is None else one_op.natives.find(sources, args)
    if native is not None:
        return native if pack is None else lambda *given: _packed(pack, native(*given))
    direct = _direct(atomic, sources, replacement)
    return direct if pack is None else lambda *given: pack(direct(*given))


def _packed(pack: Callable[[Any], Any], result: Any) -> Any:
    return ORDINARY_WAY if result is ORDINARY_WAY else pack(result)


def _has_handles(atomic: Any) -> bool:
    return any(item.dtype._handle_data for item in atomic.function_type.flat_outputs)


def _packer(concrete: Any) -> Callable[[Any], Any] | None:
    """Return what makes the user's structure of the flat outputs; None for a single tensor."""
    structure = concrete.structured_outputs
    # A gradient appends to the graph's outputs what its own function takes.
    flat = concrete.outputs[: len(concrete.function_type.flat_outputs)]
    if len(flat) == 1 and structure is flat[0]:
        return None
    if _is_flat(structure, flat):
        return _as_tuple if isinstance(structure, tuple) else _as_list
    function_type = concrete.function_type

    def general(outputs: Any) -> Any:
        return function_type.pack_output([outputs] if len(flat) == 1 else list(outputs or ()))

    return general


def _is_flat(structure: Any, flat: list[Any]) -> bool:
    """Whether a structure is a plain tuple or list of just these tensors; never of one."""
    plain: Any = type(structure) in (tuple, list)
    if not plain or len(structure) != len(flat) or len(flat) == 1:
        return False
    return all(item is tensor for item, tensor in zip(structure, flat, strict=True))


def _as_tuple(outputs: Any) -> Any:
    return tuple(outputs)


def _as_list(outputs: Any) -> Any:
    return list(outputs)


def _direct(atomic: Any, sources: list[int | Any], replacement: Replacement) -> Call:
    """Return the call of the function by name, without TensorFlow's dispatch in Python."""
    name, count = atomic.name.decode(), len(atomic.function_type.flat_outputs)
    runtime = context.context()
    fixed = [None if isinstance(item, int) else item for item in sources]
    from_arguments = [(at, item) for at, item in enumerate(sources) if isinstance(item, int)]

    def general(inputs: list[Any]) -> Any:
        attributes = call_attributes(runtime)
        with atomic_function.InterpolateRuntimeError(atomic):
            return execute.execute(name, count, inputs, attributes, runtime)

    def call(*args: Any) -> Any:
        inputs = fixed.copy()
        for at, source in from_arguments:
            inputs[at] = args[source]
        outputs = replacement.run(atomic, inputs, lambda: general(inputs))
        return outputs[0] if count == 1 else outputs

    return call
