# SPDX-License-Identifier: Apache-2.0
"""How the entry computation of a lowered function meets the function's inputs and outputs.

`variables.bind` decides the binding before anything is lowered, because the body that replaces the
TensorFlow function is made when the function is registered and the lowering runs at the first
launch. The lowering follows the binding; the launch op passes pointers in its order.

Invariant: entry parameter p of the HLO module is `Binding.parameters[p]`, and element r of the
entry's result tuple is `Binding.results[r]`, in this order, none missing and none more. The root
of the entry computation is always a tuple, also for one result and for none.

What a parameter holds, by the type of `captured.inputs[parameter.input]`:

* a number type: the argument itself;
* `"resource"`: the value of the variable before the call (its type is `CapturedInput.handle`);
* `"variant"`: the elements of a TensorList stacked into one array `[length, *element]`; of a list
  of lists the elements of all of them end to end; a second parameter has their lengths, `s64[n]`.

A variable that is written and never read is a result without a parameter. A function output that
is just one of the inputs (also through Identity) is not a result: the body hands the input on, so
`outputs` of the function and `results` of the module differ in number; use `Result.output`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedInput, Shape
    from ingot.hlo.module import Module


@record
class Parameter:
    """An entry parameter: `captured.inputs[input]`, or the variable that it is a handle of.

    `is_lengths`: it holds the lengths of the lists in that list.
    """

    input: int
    is_lengths: bool = False

    def shape_of(self, item: CapturedInput) -> Shape:
        """Return its static shape; `item` is the input."""
        return (None,) if self.is_lengths else item.parameter_shape


@record
class Result:
    """An element of the entry's result tuple: a function output, or a variable's new value.

    Exactly one is set: `output` is an index of `captured.outputs`, `variable` one of
    `captured.inputs` (a resource). An output of variant type is a TensorList: two results follow
    each other, its rows stacked, and (`is_length`) how many of them are elements, `s32[1]`; of a
    list of lists (`of_lists`) the elements of all of them end to end, and their lengths, `s64[n]`.
    """

    output: int | None = None
    variable: int | None = None
    is_length: bool = False
    of_lists: bool = False


@record
class Binding:
    """The order of a function's entry parameters and results; see the module's docstring.

    `handed_on` maps each function output that is no result to the input that it equals.
    `has_effects` says that the function must run even if nobody looks at its outputs.
    """

    parameters: tuple[Parameter, ...]
    results: tuple[Result, ...]
    handed_on: tuple[tuple[int, int], ...] = ()
    has_effects: bool = False

    @property
    def donations(self) -> tuple[tuple[int, int], ...]:
        """Pairs (result, parameter): a variable's new value may take its old value's memory."""
        by_input = {item.input: index for index, item in enumerate(self.parameters)}
        return tuple(
            (index, by_input[result.variable])
            for index, result in enumerate(self.results)
            if result.variable is not None and result.variable in by_input
        )


@record
class LoweredFunction:
    """What `lowering.lower(captured, binding, name)` returns.

    Attributes:
        captured: the function that was lowered.
        binding: the binding that `module`'s entry computation follows.
        module: the HLO.
    """

    captured: CapturedFunction
    binding: Binding
    module: Module
