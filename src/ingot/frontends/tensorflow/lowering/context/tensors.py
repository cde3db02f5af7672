# SPDX-License-Identifier: Apache-2.0
"""`TensorBuilder`: the builder of TensorFlow's rules, which learns which sizes must be equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder, SizeSource, no_symbol
from ingot.frontends.tensorflow.api.modules import config
from ingot.frontends.tensorflow.lowering.context.program import Program
from ingot.frontends.tensorflow.lowering.context.sizes import SizesDifferError
from ingot.frontends.tensorflow.lowering.context.values import Known, Size
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, find
from ingot.hlo.shape import Shape

_PRODUCTS = ("dot", "convolution")
_PRECISE = ("highest", "highest")


class TensorBuilder(ArrayBuilder):
    """Builds one computation of the program.

    Attributes:
        program: what is lowered.
        is_repeated: whether this is the body of a loop, or a computation in one.
    """

    def __init__(self, name: str, program: Program, symbol: SizeSource) -> None:
        """Build `name`; `symbol` gives a symbol's run-time value as `s64[]`."""
        super().__init__(name, symbol, program.reducers)
        self.program = program
        self.is_repeated = False

    def nested(self, name: str) -> TensorBuilder:
        """Return the builder of a computation in which no named size is known."""
        return TensorBuilder(name, self.program, no_symbol)

    def emit(
        self,
        opcode: str,
        *operands: Instruction,
        shape: Shape | str | None = None,
        name: str = "",
        **attributes: Any,
    ) -> Instruction:
        """Add an instruction; operands of an elementwise op must have the same sizes.

        Products say that they are precise where the program asked TensorFlow for that.
        """
        if opcode in _PRODUCTS and not config.tensor_float_32_execution_enabled():
            attributes.setdefault("operand_precision", _PRECISE)
        if len(operands) > 1 and find(opcode).has(Trait.ELEMENTWISE):
            first = operands[0].shape.dims
            for operand in operands[1:]:
                dims = operand.shape.dims
                if dims != first and len(dims) == len(first):
                    all(map(self.same, first, dims))
        return super().emit(opcode, *operands, shape=shape, name=name, **attributes)

    def materialize(self, known: Known) -> Instruction:
        """Return a known array as an instruction; symbolic sizes are computed at run time."""
        if not known.is_symbolic:
            return self.constant(np.asarray(known.array, known.element.numpy), known.element)
        parts = [self.convert_to(self.size(item), known.element) for item in known.array.ravel()]
        if not known.array.shape:
            return parts[0]
        stacked = self.emit(
            "concatenate", *(self.reshape_to(part, (1,)) for part in parts), dimensions=(0,)
        )
        return self.reshape_to(stacked, known.array.shape)

    def same(self, left: Size, right: Size, *, broadcasts: bool = False) -> bool:
        """Whether two sizes are, or may be made, equal; see `Equalities.learn`.

        Raises:
            SizesDifferError: only run time can tell; the op is lowered again with equal sizes.
        """
        if left != right and self.program.is_computed((left, right)):
            if isinstance(left - right, int):
                return False
            raise SizesDifferError(left, right, broadcasts=broadcasts)
        return self.program.equalities.learn(left, right)
