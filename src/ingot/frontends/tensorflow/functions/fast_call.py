# SPDX-License-Identifier: Apache-2.0
"""Eager calls of compiled functions without TensorFlow's dispatch.

TensorFlow spends tens of microseconds in Python to find the concrete function of a call. The
patched `Function.__call__` and `ConcreteFunction.__call__` remember it by the key of the call
(`call_keys`). A remembered call is either native (machine code from EagerTensor to EagerTensor, for
functions that touch no variable) or direct (TensorFlow's runtime runs the function by name).

Invariants: a call is remembered only after it went the ordinary way without tracing. Which tensor
goes where, TensorFlow says itself: it is called once more with tensors that are told apart, as far
as the concrete function, which is not run. Remembered calls are used only outside of graphs, tapes,
device scopes, distribution strategies and op callbacks. Anything else, and any failure, goes the
ordinary way.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingot.frontends.tensorflow.api.call_keys import as_tensors, key_of, with_leaves
from ingot.frontends.tensorflow.api.modules import (
    atomic_function,
    context,
    eager_function_run,
    execute,
    ops,
    pywrap_tfe,
    tensorflow,
)
from ingot.frontends.tensorflow.eager.native_calls import MAX_SIGNATURES, ORDINARY_WAY, Call
from ingot.frontends.tensorflow.functions.failure_texts import call_attributes
from ingot.frontends.tensorflow.functions.replacement import Replacement

_recorder = threading.local()


class _Record:
    """What a concrete function would be called with."""

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
        remembered = self._remembered(original)

        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if not function._jit_compile:
                return original(function, *args, **kwargs)
            return remembered(function, args, kwargs)

        return __call__

    def concrete_function_call(self, original: Any) -> Any:
        """Return the `ConcreteFunction.__call__` that uses remembered calls."""
        remembered = self._remembered(original)

        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if not hasattr(function._inference_function, "ingot_replacement"):
                return original(function, *args, **kwargs)
            return remembered(function, args, kwargs)

        return __call__

    def _remembered(self, original: Any) -> Any:
        """Return `original`, which calls a function, by remembered calls where there are any."""
        calls = self._calls
        tape_is_empty = pywrap_tfe.TFE_Py_TapeSetIsEmpty
        thread_data = self._thread_data

        def run(function: Any, args: Any, kwargs: Any) -> Any:
            if not tape_is_empty() or not thread_data.is_eager:
                return original(function, *args, **kwargs)
            if thread_data.device_name or thread_data.op_callbacks:
                return original(function, *args, **kwargs)
            known = calls.get(id(function))
            if known is None:
                known = self._start(function)
            found = key_of(args, kwargs)
            if found is None:
                return original(function, *args, **kwargs)
            key, leaves = found
            call = known.get(key)
            if call is not None and self._ordinary_conditions():
                result = call(*leaves) if leaves is args else call(*as_tensors(leaves))
                return original(function, *args, **kwargs) if result is ORDINARY_WAY else result
            traced = _tracings(function)
            result = original(function, *args, **kwargs)
            is_new = key not in known and len(known) < MAX_SIGNATURES
            if is_new and _tracings(function) == traced and self._ordinary_conditions():
                known[key] = self._find(original, function, (args, kwargs), leaves)
            return result

        return run

    def concrete_call(self, original: Any) -> Any:
        """Return the `ConcreteFunction._call_flat` that tells the recorder what is called."""

        def _call_flat(function: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
            record: _Record | None = getattr(_recorder, "record", None)
            if record is None:
                return original(function, tensor_inputs, captured_inputs)
            record.concrete, record.inputs = function, tensor_inputs
            record.captures = captured_inputs
            return None

        return _call_flat

    def changed_captures(self, original: Any) -> Any:
        """Return a method that gives a concrete function other captures, and forgets all calls."""

        def change(function: Any, *args: Any, **kwargs: Any) -> None:
            original(function, *args, **kwargs)
            for known in list(self._calls.values()):
                known.clear()

        return change

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

    def _find(
        self,
        original: Any,
        function: Any,
        arguments: tuple[Sequence[Any], Mapping[str, Any]],
        leaves: Sequence[Any],
    ) -> Call | None:
        """Return the call to remember for arguments like these; None if it goes the ordinary way.

        Args:
            original: calls the function.
            function: what is called; it was already traced for these arguments.
            arguments: positional ones and keywords.
            leaves: the tensors and arrays in them.
        """
        record = _Record()
        try:
            tensors = as_tensors(leaves)
            different = [tensorflow.identity(item) for item in tensors]
            args, kwargs = with_leaves(*arguments, different)
            _recorder.record = record
            original(function, *args, **kwargs)
        except (TypeError, ValueError):
            # An array of another type than the signature's: TensorFlow converts it, not a tensor.
            return None
        finally:
            _recorder.record = None
        sources = self._sources(different, record)
        return None if sources is None else _make_call(record, sources, tensors)

    def _sources(self, tensors: Sequence[Any], record: _Record) -> list[int | Any] | None:
        """Return, per flat input, the index of the tensor that it is, or the captured tensor.

        None if that cannot be told: a converted argument, a late capture.
        """
        concrete = record.concrete
        if concrete is None or concrete._func_graph.deferred_external_captures:
            return None
        indices = {id(item): at for at, item in enumerate(tensors)}
        if any(id(item) not in indices for item in record.inputs):
            return None
        if any(type(item) is not self._tensor_type for item in record.captures):
            return None
        if any(map(callable, concrete._captured_inputs)):
            return None
        return [*(indices[id(item)] for item in record.inputs), *record.captures]


def _tracings(function: Any) -> int:
    """Return how often a function was traced; a concrete function never is again."""
    count = getattr(function, "experimental_get_tracing_count", None)
    return 0 if count is None else count()


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
