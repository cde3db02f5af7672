# SPDX-License-Identifier: Apache-2.0
"""What one lowering shares over all its computations.

The captured function, the binding that it follows, the equalities of sizes learnt so far, and the
small scalar computations (reducers) that many instructions call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import field

from ingot.frontends.tensorflow.graphs.binding import Binding
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedNode
from ingot.frontends.tensorflow.graphs.random_state import RANDOM_STATE, has_random_state
from ingot.frontends.tensorflow.graphs.variables import EffectsAnalysis
from ingot.frontends.tensorflow.lowering.context.loop_counters import LoopCounter
from ingot.frontends.tensorflow.lowering.context.sizes import Equalities, SizeLearnedError
from ingot.frontends.tensorflow.lowering.context.values import Known, Size, Sizes, Variable
from ingot.frontends.tensorflow.variants.list_rooms import Rooms
from ingot.frontends.tensorflow.variants.specialisation import MOST_ELEMENTS, CallArguments
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction, Metadata
from ingot.support.records import mutable

_COMPUTED = "computed"
"""How the names of sizes begin that the program computes."""

_LARGEST_RANK = 254
"""TensorFlow's."""


@mutable
class Program:
    """The state of one lowering; made anew for each attempt except what was learnt before.

    Attributes:
        captured: the function.
        binding: its parameters and results.
        equalities: sizes that are known to be one, or numbers.
        arguments: the call that the function is compiled for; None if it must fit all calls.
        known: the inputs that are constants in this program, by index.
        parameters: the entry's parameters, and the inputs that they are.
        origins: what an element of a body's parameter is outside of the body, where the body
            cannot change it.
        counters: elements of a loop body's parameter that count.
        evaluated: instructions whose values were needed at compile time.
        computed: the sizes that the program computes.
        effects: which variables the functions of the library write.
        learned: sizes that were found to be one in this attempt, which is then of no other use.
        has_rooms: whether lists that grow may have too little room.
        varying: the inputs that sizes are computed from though the function could be specialised.
        walked: the functions that are being lowered, each inside of the one before.
    """

    captured: CapturedFunction
    binding: Binding
    equalities: Equalities
    arguments: CallArguments | None = None
    known: dict[int, Known] = field(default_factory=dict[int, Known])
    parameters: dict[Instruction, int] = field(default_factory=dict[Instruction, int])
    origins: dict[Instruction, Instruction] = field(default_factory=dict[Instruction, Instruction])
    counters: dict[Instruction, LoopCounter] = field(default_factory=dict[Instruction, LoopCounter])
    evaluated: dict[Instruction, Known] = field(default_factory=dict[Instruction, Known])
    effects: EffectsAnalysis = field(init=False)
    learned: list[SizeLearnedError] = field(default_factory=list[SizeLearnedError])
    has_rooms: bool = False
    varying: set[int] = field(default_factory=set[int])
    reducers: dict[tuple[str, str], Computation] = field(
        default_factory=dict[tuple[str, str], Computation]
    )
    computed: dict[str, None] = field(default_factory=dict[str, None])
    walked: list[str] = field(default_factory=list[str])
    random_indices: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def __post_init__(self) -> None:
        self.effects = EffectsAnalysis(self.captured.library)

    @property
    def rooms(self) -> Rooms:
        """The room of lists that grow, where the usual one was too little."""
        return {} if self.arguments is None else self.arguments.rooms

    @property
    def random_state(self) -> Variable | None:
        """The hidden variable of random ops that keep their state in the node, if there are any."""
        inputs = self.captured.inputs
        if not has_random_state(inputs):
            return None
        handle = inputs[-1].handle
        assert handle is not None
        nodes = handle.shape or ()
        return Variable(len(inputs) - 1, S64, tuple(size for size in nodes if size is not None))

    def stop_if_learned(self) -> None:
        """End the attempt if sizes were found to be one: what has other sizes now goes wrong.

        Raises:
            SizeLearnedError: they were.
        """
        if self.learned:
            raise self.learned[0]

    def new_size(self) -> str:
        """Return the name of a size that the program computes."""
        name = f"{_COMPUTED}{len(self.computed)}"
        self.computed[name] = None
        return name

    def is_computed(self, sizes: Iterable[Size]) -> bool:
        """Whether some of the sizes are known only when the program runs."""
        return not symbols_of(sizes).isdisjoint(self.computed)

    def age_of(self, size: Size) -> int:
        """Return a number that is greater for a size that is computed later; -1 for no such one."""
        names = symbols_of((size,)) & self.computed.keys()
        return max((int(name.removeprefix(_COMPUTED)) for name in names), default=-1)

    def random_index(self, function: str, node: str) -> int:
        """Return which element of the random state belongs to a node."""
        return self.random_indices.setdefault((function, node), len(self.random_indices))

    def input_dims(self, index: int, shape: tuple[int | None, ...]) -> Sizes:
        """Return the dimensions of input `index`; each unknown one is a symbol of its own."""
        named = (
            Dim.symbol(symbol_of(index, axis)) if size is None else size
            for axis, size in enumerate(shape)
        )
        return self.equalities.simplify(tuple(named))

    def why_not_fixed(self, index: int) -> str | None:
        """Return why the function cannot specialise on the value of input `index`, or None."""
        item = self.captured.inputs[index]
        if item.type.dtype == "variant":
            return f"it comes out of the TensorList '{item.name}'"
        if item.name == RANDOM_STATE:
            return "it is random"
        if self.arguments is None:
            return f"it comes from argument '{item.name}'"
        number = self.parameter_of(index)
        count = math.prod(self.arguments.dims(number))
        if count > MOST_ELEMENTS:
            return f"it is computed from the {count} elements of '{item.name}'"
        return None

    def is_varying(self, index: int) -> bool:
        """Whether input `index` had several values already, so that specialising does not pay."""
        varying = frozenset[int]() if self.arguments is None else self.arguments.varying
        return bool(varying) and self.parameter_of(index) in varying

    def parameter_of(self, index: int) -> int:
        """Return which parameter holds input `index`."""
        return next(
            number for number, item in enumerate(self.binding.parameters) if item.input == index
        )

    def input_name(self, index: int) -> str:
        """Return the name of the user's argument, as HLO may call its parameter."""
        return re.sub(r"[^A-Za-z0-9_.]", "_", self.captured.inputs[index].name)

    def input_metadata(self, index: int) -> Metadata:
        """Return the op and the user's line that decided the sizes of an input, if any did."""
        reasons = self.equalities.reasons
        deciding = (reasons.get(symbol_of(index, axis)) for axis in range(_LARGEST_RANK))
        node = next((node for node in deciding if node is not None), None) if reasons else None
        if node is None:
            return Metadata(op_name=self.captured.inputs[index].name)
        return metadata_of(node)


def metadata_of(node: CapturedNode) -> Metadata:
    """Return what HLO instructions say of the node that they come from."""
    source = node.location
    if source is None:
        return Metadata(node.op, node.name)
    return Metadata(node.op, node.name, source.file, source.line)


def symbol_of(index: int, axis: int, *, is_lengths: bool = False) -> str:
    """Return the name of an unknown size of input `index`; `is_lengths`: how many lists it has."""
    if is_lengths:
        return f"n{index}_lists"
    return f"n{index}_{axis}" if axis else f"n{index}"
