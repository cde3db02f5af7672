# SPDX-License-Identifier: Apache-2.0
"""From a TensorFlow function to a module that stands alone, with its variables as constants.

What `ingot aot` and `ingot.tensorflow.frozen_module` compile: no call is at hand, and no TensorFlow
when the program runs. The function is captured and lowered as for a call; then each parameter that
is a variable, or another tensor from outside, becomes a constant with the value that it has now.

Invariant: the module's parameters are the function's own inputs in TensorFlow's order (that of
`ConcreteFunction.inputs`), its results all flat outputs (`ConcreteFunction.outputs`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ingot.frontends.tensorflow.api.modules import (
    concrete_function,
    polymorphic_function,
    tensorflow,
)
from ingot.frontends.tensorflow.api.series import tell_if_untested
from ingot.frontends.tensorflow.functions.replacement import capture_now
from ingot.frontends.tensorflow.graphs.binding import Binding, Result
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedNode,
    FunctionRef,
    Shape,
)
from ingot.frontends.tensorflow.graphs.random_state import (
    RANDOM_STATE,
    STATEFUL_OPS,
    has_random_state,
)
from ingot.frontends.tensorflow.graphs.variables import CALLS, NOT_NUMBERS, READS, TOUCHES_NOT, bind
from ingot.frontends.tensorflow.lowering import lower
from ingot.frontends.tensorflow.partitioning.op_families import is_compiled, reason
from ingot.frontends.tensorflow.partitioning.placement import on_host
from ingot.frontends.tensorflow.variants.specialisation import NoArguments, Reason, Value
from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.support.arguments import require_type
from ingot.support.collector import collector_paused
from ingot.support.diagnostics import UnsupportedError

_NO_CALL = "an artifact is for all calls"


def frozen_module(function: Any) -> Module:
    """Return the HLO of a function, with the values that its variables have now as constants.

    Sizes that the signature leaves open stay symbolic.

    Args:
        function: a `ConcreteFunction`, a `tf.function` with an input signature (or without
            arguments), or a Keras model, of which it is the call for inference.

    Raises:
        UnsupportedError: `function` is none of these; or an op cannot be compiled, only the host
            can do it, it writes a variable, or it needs a value or size of the call: the error
            names the op, the node and the user's line.
    """
    tell_if_untested()
    concrete = concrete_of(function)
    with collector_paused():
        return _Freezing(concrete).module()


def concrete_of(function: Any) -> Any:
    """Return the `ConcreteFunction` of what `frozen_module` takes."""
    if isinstance(function, concrete_function.ConcreteFunction):
        return function
    if isinstance(function, polymorphic_function.Function):
        if function.input_signature is None and function.function_spec.fullargspec.args:
            raise UnsupportedError(
                f"'{function.name}' has no input signature",
                hint="give the tf.function one, or pass function.get_concrete_function(...)",
            )
        return function.get_concrete_function()
    hint = "pass a ConcreteFunction, a tf.function with an input signature, or a Keras model"
    require_type(function, tensorflow.keras.Model, "the argument", hint)
    return _inference(function)


def _inference(model: Any) -> Any:
    """Return the call of a Keras model for inference; its inputs in order are the arguments."""
    if not model.built or not getattr(model, "inputs", None):
        raise UnsupportedError(
            f"the inputs of the model '{model.name}' are not known",
            hint="pass tf.function(model).get_concrete_function(tf.TensorSpec(...))",
        )
    specs = [tensorflow.TensorSpec(item.shape, item.dtype, item.name) for item in model.inputs]

    def call(*inputs: Any) -> Any:
        return model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)

    call.__name__ = re.sub(r"\W", "_", model.name)
    return tensorflow.function(call, input_signature=specs).get_concrete_function()


class _Freezing:
    """Freezes one function."""

    def __init__(self, concrete: Any) -> None:
        name = tensorflow.compat.as_str(concrete.name)
        self._name = re.sub(r"[^A-Za-z0-9_.]", "_", name)
        captured, binding = bind(capture_now(name, concrete.graph))
        first = len(concrete.inputs) - len(concrete.captured_inputs)
        outside: Sequence[Any] = concrete.captured_inputs
        self._outside = dict(enumerate(outside, first))
        self._captured, self._binding = captured, binding

    def module(self) -> Module:
        """Return the module."""
        captured = self._captured
        _refuse_host(captured)
        self._refuse_effects()
        _refuse_types(captured, self._outside)
        values = {
            number: self._value(item.input)
            for number, item in enumerate(self._binding.parameters)
            if item.input in self._outside
        }
        captured = captured.with_input_shapes(
            {self._binding.parameters[at].input: array.shape for at, array in values.items()}
        )
        # Every output is a result, those too that TensorFlow's body would pass on.
        outputs = tuple(Result(output=at) for at in range(len(captured.outputs)))
        binding = Binding(self._binding.parameters, outputs)
        shapes = [item.shape_of(captured.inputs[item.input]) for item in binding.parameters]
        lowered = lower(captured, binding, self._name, _Frozen(shapes, values))
        return with_constants(lowered.module, values)

    def _value(self, index: int) -> np.ndarray:
        """Return what the function takes from outside at an input."""
        tensor, item = self._outside[index], self._captured.inputs[index]
        if not item.is_variable:
            return np.asarray(tensor)
        assert item.handle is not None
        read = tensorflow.raw_ops.ReadVariableOp(resource=tensor, dtype=item.handle.dtype)
        return np.asarray(read)

    def _refuse_effects(self) -> None:
        """Raise for what would have to be remembered from one call to the next."""
        captured = self._captured
        if has_random_state(captured.inputs):
            node = next(node for node in _nodes(captured) if node.op in STATEFUL_OPS)
            raise _refusal(
                node,
                "draws random numbers that go on from call to call",
                "use tf.random.stateless_*, whose seed is an argument",
            )
        for result in self._binding.results:
            if result.variable is None:
                continue
            name = captured.inputs[result.variable].name
            node = _writer(captured, result.variable)
            raise _refusal(
                node,
                f"writes the variable '{name}', and in an artifact variables are constants",
                "return the new value, and give it as an argument in the next call",
            )


class _Frozen(NoArguments):
    """No call's arguments, but the values of what the function takes from outside."""

    def __init__(self, shapes: Sequence[Shape], values: Mapping[int, np.ndarray]) -> None:
        super().__init__(shapes)
        self._known = values

    def value(self, parameter: int, name: str, dtype: np.dtype, reason: Reason) -> Value | None:
        """Return the value of a variable; refuse to give an argument's."""
        array = self._known.get(parameter)
        if array is None:
            raise _needed(f"the value of the argument '{name}'", reason, "make it a constant")
        found = Value(parameter, name, array.astype(dtype), reason)
        self.values[parameter] = found
        return found

    def size(self, parameter: int, axis: int, name: str, reason: Reason) -> int:
        """Refuse to give a size that is open."""
        del parameter
        what = f"the size of dimension {axis} of the argument '{name}'"
        raise _needed(what, reason, "give it a fixed size in the input signature")


def _needed(what: str, reason: Reason, hint: str) -> UnsupportedError:
    return UnsupportedError(
        f"the {reason.what} depends on {what}, and {_NO_CALL}",
        code="INGOT0310",
        op_type=reason.op,
        op_name=reason.node,
        location=reason.location,
        hint=hint,
    )


def _refusal(node: CapturedNode | None, why: str, hint: str) -> UnsupportedError:
    if node is None:
        return UnsupportedError(f"the function {why}", code="INGOT0311", hint=hint)
    return UnsupportedError(
        f"{node.op} {why}",
        code="INGOT0311",
        op_type=node.op,
        op_name=node.name,
        location=node.location,
        hint=hint,
    )


def _nodes(captured: CapturedFunction) -> list[CapturedNode]:
    everything = {**captured.library, captured.name: captured}
    return [node for function in everything.values() for node in function.nodes]


def _refuse_host(captured: CapturedFunction) -> None:
    """Raise for the first op that only TensorFlow's kernels can do."""
    everything = {**captured.library, captured.name: captured}
    for name, hosted in on_host(captured).items():
        for node in everything[name].nodes:
            if node.name in hosted and node.op not in CALLS and not is_compiled(node.op):
                why, _ = reason(node.op)
                hint = "compute this part before or after the compiled program"
                raise _refusal(node, f"cannot be in an artifact: {why}", hint)


def _refuse_types(captured: CapturedFunction, outside: Mapping[int, Any]) -> None:
    """Raise for arguments and outputs that are no numbers."""
    rows = [("argument", item.name, item.type.dtype) for item in captured.inputs]
    rows = [row for index, row in enumerate(rows) if index not in outside]
    kinds = zip(captured.outputs, captured.output_types, strict=True)
    rows.extend(("output", ref.node, kind.dtype) for ref, kind in kinds)
    for what, name, dtype in rows:
        if dtype in NOT_NUMBERS and name != RANDOM_STATE:
            raise UnsupportedError(
                f"the {what} '{name}' is of type {dtype}, which compiled code does not have",
                code="INGOT0311",
                op_name=name,
                hint="compile a function of numbers, and do the rest before or after it",
            )


def _writer(captured: CapturedFunction, variable: int) -> CapturedNode | None:
    """Return the node that writes a variable, in the function or in what it calls."""
    function, name = captured, captured.inputs[variable].name
    while True:
        taking = [n for n in function.nodes if any(ref.node == name for ref in n.inputs)]
        taking = [node for node in taking if node.op not in READS | TOUCHES_NOT]
        if not taking:
            return None
        node = next((node for node in taking if node.op not in CALLS), taking[0])
        if node.op not in CALLS:
            return node
        call = CALLS[node.op]
        called = node.attributes[call.attributes[0]]
        inner = called[0] if isinstance(called, tuple) else called
        if not isinstance(inner, FunctionRef):
            return node
        at = [ref.node for ref in node.inputs].index(name) - call.first_input
        function = captured.library[inner.name]
        name = function.inputs[at].name


def with_constants(module: Module, values: Mapping[int, np.ndarray]) -> Module:
    """Return a module that gives `module`'s entry some parameters as constants.

    Args:
        module: the module, which is consumed.
        values: by number of the parameter; the others move up.
    """
    builder = Builder("frozen")
    old = module.entry
    given: list[Instruction] = []
    count = 0
    for number, parameter in enumerate(old.parameters):
        if number in values:
            given.append(builder.constant(values[number], parameter.shape.dtype))
            continue
        made = builder.parameter(count, parameter.shape, parameter.name)
        made.metadata = parameter.metadata
        given.append(made)
        count += 1
    root = builder.emit("call", *given, to_apply=old)
    return Module.of(module.name, builder.build(root))
