# SPDX-License-Identifier: Apache-2.0
"""What one lowering has learnt before each attempt: equal sizes, and values and sizes of the call.

Invariant: every constant that an attempt uses of the call was asked of `CallArguments`, so it is
part of the variant's key; equalities that contradict the call's sizes are never assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ingot.frontends.tensorflow.graphs.binding import Binding
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedNode
from ingot.frontends.tensorflow.lowering.context.constants import ValueNeededError
from ingot.frontends.tensorflow.lowering.context.op import located
from ingot.frontends.tensorflow.lowering.context.program import Program, symbol_of
from ingot.frontends.tensorflow.lowering.context.sizes import Equalities, SizeLearnedError
from ingot.frontends.tensorflow.lowering.context.values import Known, element_of
from ingot.frontends.tensorflow.variants.specialisation import CallArguments, NoArguments, Reason
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.support.diagnostics import InternalError, UnsupportedError


class Specialiser:
    """Makes the `Program` of each attempt."""

    def __init__(
        self, captured: CapturedFunction, binding: Binding, arguments: CallArguments | None
    ) -> None:
        """Start with what the call is already known to be specialised on."""
        self._captured, self._binding, self._arguments = captured, binding, arguments
        self._known: dict[int, Known] = {}
        self._fixed: dict[str, int] = {}
        self._sources: dict[str, tuple[int, int, int]] = {}
        for number, parameter in enumerate(binding.parameters):
            shape = parameter.shape_of(captured.inputs[parameter.input]) or ()
            for axis, size in enumerate(shape):
                if size is None:
                    symbol = symbol_of(parameter.input, axis, is_lengths=parameter.is_lengths)
                    self._sources[symbol] = (number, axis, parameter.input)
        self._equalities = Equalities()
        if arguments is not None and arguments.exact is not None:
            self._fix_sizes(self._sources, arguments.exact)
        for number, value in list(arguments.values.items()) if arguments is not None else ():
            self._fix_value(binding.parameters[number].input, value.reason)

    def program(self) -> Program:
        """Return the state of a new attempt."""
        known = dict(self._known)
        return Program(self._captured, self._binding, self._equalities, self._arguments, known)

    def learn(self, found: Sequence[SizeLearnedError]) -> None:
        """Take over which sizes are one; of a call where two are not, take these sizes.

        What was found after those two followed from their being one, and is found again if it
        holds.
        """
        for learned in found:
            self._equalities.reasons[learned.symbol] = learned.node
            if self._arguments is None or isinstance(self._arguments, NoArguments):
                continue
            symbols = dim_math.symbols_of((Dim.symbol(learned.symbol), learned.size))
            sizes = {name: self._size_of(name) for name in symbols}
            if dim_math.evaluate(learned.size, sizes) != sizes[learned.symbol]:
                # Broadcasting, for one: sizes are equal in most calls, and in this one 1 and n.
                what = "shape, with another size than usual"
                self._fix_sizes(symbols, _reason(learned.node, what))
                return

    def fix(self, needed: ValueNeededError) -> None:
        """Take over values and sizes of the call that an op needs."""
        reason = _reason(needed.node, needed.what)
        before = len(self._known) + len(self._fixed)
        for index in sorted(needed.inputs):
            if not self._fix_value(index, reason):
                name = self._captured.inputs[index].name
                error = UnsupportedError(
                    f"the {needed.what} depends on the value of '{name}', which is not at hand",
                    code="INGOT0310",
                    hint="call the function, then ask for its code",
                )
                raise error if needed.node is None else located(needed.node, error)
        self._fix_sizes(needed.symbols, reason)
        if len(self._known) + len(self._fixed) == before:
            raise InternalError(f"lowering asks again for {needed}")

    def _fix_value(self, index: int, reason: Reason) -> bool:
        assert self._arguments is not None
        item = self._captured.inputs[index]
        element = element_of((item.handle or item.type).dtype)
        number = self.program().parameter_of(index)
        found = self._arguments.value(number, item.name, element.numpy, reason)
        if found is None:
            return False
        self._known[index] = Known.of(found.array, element)
        shape = item.parameter_shape or ()
        open_axes = (axis for axis, size in enumerate(shape) if size is None)
        self._fix_sizes((symbol_of(index, axis) for axis in open_axes), reason)
        return True

    def _size_of(self, symbol: str) -> int:
        assert self._arguments is not None
        number, axis, _ = self._sources[symbol]
        return self._arguments.dims(number)[axis]

    def _fix_sizes(self, symbols: Iterable[str], reason: Reason) -> None:
        assert self._arguments is not None
        for symbol in sorted(symbols):
            number, axis, index = self._sources[symbol]
            name = self._captured.inputs[index].name
            self._fixed[symbol] = self._arguments.size(number, axis, name, reason)
        if not all(self._equalities.fix(name, size) for name, size in self._fixed.items()):
            # What was learnt does not hold for these sizes: it is learnt again.
            self._equalities = Equalities(self._fixed)


def _reason(node: CapturedNode | None, what: str) -> Reason:
    return Reason(what) if node is None else Reason.at(node, what)
