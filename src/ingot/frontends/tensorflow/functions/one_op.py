# SPDX-License-Identifier: Apache-2.0
"""Functions that are a single launch op, run eagerly without TensorFlow's function runtime.

A call is machine code from tensors to tensors where that is possible (`native_calls`), else the op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.frontends.tensorflow.api.errors import without_wrapper
from ingot.frontends.tensorflow.api.modules import context, errors, execute
from ingot.frontends.tensorflow.eager.native_calls import NativeCalls
from ingot.frontends.tensorflow.graphs.variables import NOT_NUMBERS
from ingot.frontends.tensorflow.launches.launch_op import PROCESS_MARK
from ingot.frontends.tensorflow.launches.launch_writer import Program


class OneOp:
    """A function that is one launch.

    Attributes:
        natives: how it runs where no op is needed.
    """

    __slots__ = ("_attributes", "_binding", "_function", "_op", "natives")

    def __init__(self, program: Program, body: Any) -> None:
        """Take the op's attributes from the function's body."""
        self._function, self._binding, self._op = program.function, program.binding, program.op
        self.natives = NativeCalls(program.function, program.binding, program.launch)
        attributes = body.node_def[0].attr
        kinds = [list(attributes[name].list.type) for name in ("Tin", "Tout")]
        numbers = ("process", PROCESS_MARK, "launch", program.launch.address)
        self._attributes: Any = ("Tin", kinds[0], "Tout", kinds[1], *numbers)

    def execute(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the function eagerly, as the one op that it is at most; return its flat outputs."""
        outputs = self.natives.run(inputs)
        return self._execute(inputs) if outputs is None else outputs

    def _execute(self, inputs: Sequence[Any]) -> list[Any]:
        given = [inputs[item.input] for item in self._binding.parameters]
        count = len(self._attributes[3])
        try:
            results = execute.execute(self._op, count, given, self._attributes, context.context())
        except errors.OpError as error:
            error._message = without_wrapper(error.message)
            raise
        except RuntimeError as error:
            # Ctrl-C ended the function; TensorFlow made this of its own error and Python's.
            if "REPLACED BY KeyboardInterrupt" in str(error):
                raise KeyboardInterrupt from None
            raise
        if not self._binding.handed_on:
            return results
        outputs: list[Any] = [None] * len(self._function.outputs)
        for result, value in zip(self._binding.results, results, strict=False):
            assert result.output is not None
            outputs[result.output] = value
        for output, source in self._binding.handed_on:
            # Never the very tensor: a tape takes outputs for new ones.
            kind = ("T", inputs[source].dtype.as_datatype_enum)
            (outputs[output],) = execute.execute(
                "Identity", 1, [inputs[source]], kind, context.context()
            )
            if self._function.inputs[source].type.dtype in NOT_NUMBERS:
                outputs[output]._handle_data = inputs[source]._handle_data
        return outputs
