# SPDX-License-Identifier: Apache-2.0
"""Op interfaces: properties of ops that the rest of the compiler uses, from the op table.

A pass asks a question ("does it make a value?", "is it computed inside a kernel?") instead of using
a list of opcodes, so the row of an op that is added later answers it. `ops_with` returns the names
of all ops with a property, as a set for `opcode in VIEWS`; the set is live, so it also holds ops
that are defined after the call.

Invariant: an op is in a set of `ops_with` exactly if its row says so.

Source: the names are MLIR's op interfaces and traits (ViewLikeOpInterface, CallOpInterface,
RegionBranchOpInterface, SubsetOpInterface), XLA's HloOpcode predicates and, for fusion, the
pattern kinds of TVM's OpPatternKind.

Example:
    >>> from ingot.hlo.opdef import table
    >>> branches = ops_with(RegionKind.BRANCH)
    >>> len(table()) > 100, sorted(branches)
    (True, ['conditional', 'while'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING

from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.hlo.dim import Dim
    from ingot.hlo.instruction import Instruction


class Trait(IntEnum):
    """A property of every instruction of an op; an integer, which hashes fast."""

    ELEMENTWISE = auto()  # output element i depends on element i of each operand
    COMMUTATIVE = auto()
    ASSOCIATIVE = auto()  # on integers; on floats only under a licence
    IDEMPOTENT = auto()  # f(f(x)) == f(x), of two operands f(x, x) == x
    EXACT = auto()  # nothing is rounded: an operand, its sign or complement, or a conversion
    NO_ARITHMETIC = auto()  # chooses, copies or converts elements: no arithmetic, no flops
    SHAPING = auto()  # moves elements, computes nothing
    SIDE_EFFECT = auto()  # neither removed nor merged nor reordered
    COLLECTIVE = auto()  # devices meet in it: a side effect
    EXCHANGE = auto()  # a collective that the runtime does as a whole, of one array
    NEEDS_SHAPE = auto()  # the result shape is given, not inferred
    EXPENSIVE = auto()  # transcendental: recomputation is worth avoiding
    LONG_LATENCY = auto()  # one machine instruction that takes as long as many others
    LEAF = auto()  # an argument or a literal: reads nothing, takes no time
    CONSTANT_LIKE = auto()  # its value is known from its attributes and shape
    TUPLE = auto()  # builds tuples or takes them apart; makes no value
    VIEW = auto()  # its result is the memory of its first operand
    RESHAPE_LIKE = auto()  # a view whose elements stay in row-major order
    SUBSET_EXTRACTION = auto()  # reads a part of its first operand, at any index
    CONTRACTION = auto()  # sums of products of two operands
    DEVICE_ID = auto()  # the number of the device that runs the program
    BARRIER = auto()  # orders other ops: its result is not moved, merged or folded


class FusionClass(Enum):
    """How a kernel treats an op."""

    NONE = "no kernel computes it"
    ELEMENTWISE = "an expression of its operands at the same index"
    INJECTIVE = "its operands at other indices: it moves elements, or makes them from an index"
    REDUCTION = "folds with a loop of their own"
    CONTRACTION = "sums of products with tiles"
    IN_PLACE = "written into the memory of operands: the last op of its kernel"
    OPAQUE = "a kernel of its own, with nothing fused into it"


class RegionKind(Enum):
    """How an op uses the computations that it refers to."""

    NONE = "it refers to none"
    BRANCH = "the host program runs them, some of them or several times"
    CALL = "the host program runs it once"
    FUSION = "one kernel runs it"
    SCAN = "it is applied to slices, one after the other"
    ELEMENT = "it is applied to elements"
    DEVICE = "it joins elements of several devices"
    ASYNC = "it is named again: an `async-start` runs it"
    FOREIGN = "code that is registered under a name runs them"


@record
class IndexingMap:
    """The operand element that a shaping op with one operand moves to each result element.

    Attributes:
        index: maps an index of the result to the operand's index; one `int` or `Dim` per dimension,
            for any sizes.
    """

    index: Callable[[Instruction, tuple[int | Dim, ...]], tuple[int | Dim, ...]]


@record
class ProjectedPermutation:
    """An indexing map that only picks and permutes dimensions of the result.

    Frames, sizes and indices all follow it: a property of a result dimension is one of the
    corresponding operand dimension. (The name is from MLIR's AffineMap.)

    Attributes:
        dims: the result dimension of each operand dimension.
    """

    dims: Callable[[Instruction], tuple[int, ...]]

    def index(
        self, instruction: Instruction, index: tuple[int | Dim, ...]
    ) -> tuple[int | Dim, ...]:
        """Return the operand index of the element at result index `index`."""
        return tuple([index[number] for number in self.dims(instruction)])


Flops = Callable[["Instruction"], "int | Dim"]
"""Arithmetic operations of an instruction: an expression of the symbolic sizes."""


def no_flops(_: Instruction) -> int | Dim:
    """Return 0: the op moves elements, or code outside of kernels computes them."""
    return 0


def one_flop_each(instruction: Instruction) -> int | Dim:
    """Return the number of elements of the result."""
    return instruction.shape.size


Interface = Trait | FusionClass | RegionKind

_ops: dict[str, frozenset[Interface]] = {}
_sets: dict[tuple[frozenset[Interface], frozenset[str]], set[str]] = {}


def ops_with(*wanted: Interface, also: Iterable[str] = ()) -> AbstractSet[str]:
    """Return the names of the ops that have one of the properties `wanted`, and those in `also`.

    Args:
        wanted: traits, fusion classes, kinds of regions.
        also: further opcodes, for a reason of the caller.
    """
    extra = frozenset(also)
    key = frozenset(wanted), extra
    if key not in _sets:
        have = {name for name, said in _ops.items() if not key[0].isdisjoint(said)}
        _sets[key] = have.union(extra)
    return _sets[key]


def register(name: str, interfaces: Iterable[Interface]) -> None:
    """Register the properties of an op; called by `opdef.define`."""
    have = _ops[name] = frozenset(interfaces)
    for (wanted, _), names in _sets.items():
        if not wanted.isdisjoint(have):
            names.add(name)
