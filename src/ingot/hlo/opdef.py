# SPDX-License-Identifier: Apache-2.0
"""The op table: one declaration per opcode, from which everything else follows.

An `OpDef` says name, arity, attribute dataclass, traits and shape inference. Parser, printer,
verifier, builder, op reference and generators read it; evaluator and backends register their
rule under the same name. Families live in `opset/`, one file each; `find` loads them.

Attribute fields are named as XLA's text names them and carry a `codec` (how the text looks) in
their metadata. Constraint labels in `require` are the StableHLO specification's where it has one
(`dot_general_c4`).

Example:
    >>> find("add").arity, Trait.COMMUTATIVE in find("add").traits
    ((2, 2), True)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

from ingot.hlo.interfaces import (
    Flops,
    FusionClass,
    IndexingMap,
    ProjectedPermutation,
    RegionKind,
    Trait,
    no_flops,
    one_flop_each,
    register,
)
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError, VerifyError
from ingot.support.records import record

MAX_SHAPE_BYTES = 1 << 62
"""The largest value, materialized or not: an index, rounded up to a tile, fits into 64 bits."""

FAMILIES = (
    "elementwise",
    "shaping",
    "reduction",
    "contraction",
    "indexing",
    "control",
    "random",
    "structural",
    "collective",
    "transfer",
    "normalization",
    "dots",
    "dynamic",
    "transforms",
    "linalg",
)


class Codec(Enum):
    """How an attribute looks in HLO text."""

    INT = auto()  # iota_dimension=0
    FLOAT = auto()  # epsilon=0.001
    BOOL = auto()  # is_stable=true
    NAME = auto()  # direction=LT (an identifier)
    STRING = auto()  # custom_call_target="f"
    INTS = auto()  # dimensions={0,1}
    COMPUTATION = auto()  # to_apply=%add
    COMPUTATIONS = auto()  # branch_computations={%a, %b}
    SLICE = auto()  # slice={[0:2], [0:3:2]}: ((start, limit, stride), ...)
    PADDING = auto()  # padding=0_1_0x2_3_1: ((low, high, interior), ...)
    NAMES = auto()  # operand_precision={highest,default}
    GROUPS = auto()  # replica_groups={{0,1},{2,3}}
    PAIRS = auto()  # source_target_pairs={{0,1},{1,2}}
    WINDOW = auto()  # window={size=3x3 pad=1_1x1_1}
    DIM_LABELS = auto()  # dim_labels=b01f_01io->b01f
    ALIASING = auto()  # output_to_operand_aliasing={{}: (0, {})}
    SHAPES = auto()  # operand_layout_constraints={f32[2]{0}}
    INLINE = auto()  # inside the parentheses: constant(…), parameter(0)


def attribute(
    codec: Codec, default: Any = MISSING, *, text: str = "", names: tuple[str, ...] = ()
) -> Any:
    """Declare an attribute field.

    Args:
        codec: how its value is written in HLO text.
        default: its value where the text leaves it out; without one it is required.
        text: its name in HLO text when it is a Python keyword.
        names: the names that a `Codec.NAME` or `Codec.NAMES` field may hold; () for any.
    """
    metadata = {"codec": codec, "text": text, "names": names}
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


@record
class NoAttributes:
    """The attributes of an op that has none."""


NO_ATTRIBUTES = NoAttributes()

Attributes = TypeVar("Attributes")


def wrong_attributes(opcode: str, attributes: object, wanted: type[Any]) -> InternalError:
    """Return the error of attributes that were requested as a class that is not theirs."""
    have = type(attributes).__name__
    message = f"attributes of {opcode} are {have}, not {wanted.__name__}"
    return InternalError(message, code="INGOT0934")


class OpView(NamedTuple):
    """Input of shape inference: operand shapes, attributes, the declared shape if there is one."""

    opcode: str
    operands: tuple[Shape, ...]
    attributes: Any
    declared: Shape | None = None

    def as_(self, wanted: type[Attributes]) -> Attributes:
        """Return the attributes, typed; InternalError INGOT0934 if they are of another class."""
        attributes = self.attributes
        if isinstance(attributes, wanted):
            return attributes
        raise wrong_attributes(self.opcode, attributes, wanted)

    def given(self) -> Shape:
        """Return the declared shape of an op that cannot infer it.

        Raises:
            VerifyError: INGOT0206 no shape is declared.
        """
        if self.declared is None:
            raise VerifyError(f"{self.opcode} needs its result shape", code="INGOT0206")
        return self.declared


Infer = Callable[[OpView], Shape]


@record(eq=False)
class OpDef:
    """One opcode.

    Attributes:
        name: XLA's opcode text.
        family: the file that declares it.
        arity: least and greatest number of operands (None: any).
        attributes: the attribute dataclass.
        infer: result shape from operand shapes and attributes; raises VerifyError with the label.
        traits: what passes may assume.
        fusion: what a kernel does with it.
        regions: what it does with the computations that it refers to.
        destinations: number of operands -> how many of the first ones it updates in place; None: it
            writes a result of its own. (MLIR's DestinationStyleOpInterface.)
        indexing: the source of each element of the result, if its one operand is the source.
        flops: arithmetic operations of an instruction, a multiply-add being two.
        spec: anchor in the StableHLO specification or XLA's operation semantics.
        doc: one line for the op reference.
        results: labels of the constraints on the result's dimensions and element type.
        counts: label of the constraint on the number of operands.
        takes_arrays: whether every operand is an array, not a tuple or token.
        enumerations: (name, the names that it may hold) of each attribute that is one of a list.
        callees: (name, whether it holds several) of each attribute that refers to computations.
        may_have_effects: whether an instruction may have side effects, or calls computations.
    """

    name: str
    family: str
    arity: tuple[int, int | None]
    attributes: type[Any]
    infer: Infer
    traits: frozenset[Trait]
    fusion: FusionClass
    regions: RegionKind
    destinations: Callable[[int], int] | None
    indexing: IndexingMap | ProjectedPermutation | None
    flops: Flops
    spec: str
    doc: str
    callees: tuple[tuple[str, bool], ...]
    may_have_effects: bool
    results: tuple[str, str]
    counts: str
    takes_arrays: bool
    enumerations: tuple[tuple[str, frozenset[str]], ...]

    def has(self, trait: Trait) -> bool:
        """Whether the op has `trait`."""
        return trait in self.traits

    def result(
        self, operands: tuple[Shape, ...], attributes: Any, declared: Shape | None = None
    ) -> Shape:
        """Return the shape that follows from operands and attributes, cached if nothing changes it.

        `declared` is the shape that the program gives, for ops that cannot infer it. Not cached:
        ops with computations, which may be edited, and constants, whose comparison takes longer
        than their rule.

        Raises:
            VerifyError: operands, attributes or declared shape do not fit; it names the constraint.
        """
        if self.callees or self.name == "constant":
            return self.inferred(operands, attributes, declared)
        return _remembered(self, operands, attributes, declared)

    def inferred(
        self, operands: tuple[Shape, ...], attributes: Any, declared: Shape | None
    ) -> Shape:
        """Return the result shape, not cached; VerifyError with a label if operands do not fit."""
        least, greatest = self.arity
        count = len(operands)
        if count < least or (greatest is not None and count > greatest):
            wanted = str(least) if least == greatest else f"{least} to {greatest or 'any number'}"
            require(False, self.counts, f"{self.name} takes {wanted} operands, got {count}")
        if self.takes_arrays:
            for operand in operands:
                if operand.dtype.storage is None:
                    label = f"{label_prefix(self.spec)}_i1"
                    require(False, label, f"{self.name} takes arrays, got {operand}")
        for field_name, names in self.enumerations:
            self._require_known(field_name, getattr(attributes, field_name), names)
        if declared is not None:
            size = declared.bytes
            if isinstance(size, int) and size > MAX_SHAPE_BYTES:
                message = f"{declared} takes {size} bytes, more than 2**62"
                raise VerifyError(message, code="INGOT0218")
        result = self.infer(OpView(self.name, operands, attributes, declared))
        for size in result.dims:
            if isinstance(size, int) and size < 0:
                raise VerifyError(f"{result} has a negative size", code="INGOT0218")
        return result

    def _require_known(
        self, field_name: str, given: str | tuple[str, ...], names: frozenset[str]
    ) -> None:
        for name in (given,) if isinstance(given, str) else given:
            if name not in names and name:
                label = f"{label_prefix(self.spec)}_{field_name}"
                listed = ", ".join(sorted(names))
                require(False, label, f"{field_name} {name} is not known; it may be {listed}")

    def refuse_result(self, inferred: Shape, declared: Shape) -> None:
        """Raise VerifyError: the declared shape of a result is not the inferred one."""
        same_dims = inferred.dims == declared.dims and inferred.is_array
        label = self.results[same_dims]
        require(False, label, f"{self.name} gives {inferred}, declared as {declared}")

    @property
    def fields(self) -> tuple[Field[Any], ...]:
        """The attribute fields, in text order."""
        return _fields(self.attributes)


@lru_cache(maxsize=1 << 13)
def _remembered(
    definition: OpDef, operands: tuple[Shape, ...], attributes: Any, declared: Shape | None
) -> Shape:
    return definition.inferred(operands, attributes, declared)


@cache
def _fields(attributes: type[Any]) -> tuple[Field[Any], ...]:
    return fields(attributes)


@cache
def _callees(attributes: type[Any]) -> tuple[tuple[str, bool], ...]:
    codecs = {Codec.COMPUTATION: False, Codec.COMPUTATIONS: True}
    rows = ((row.name, row.metadata.get("codec")) for row in _fields(attributes))
    return tuple((name, codecs[codec]) for name, codec in rows if codec in codecs)


def _enumerations(attributes: type[Any]) -> tuple[tuple[str, frozenset[str]], ...]:
    rows = ((row.name, row.metadata.get("names", ())) for row in _fields(attributes))
    return tuple((name, frozenset(names)) for name, names in rows if names)


_TABLE: dict[str, OpDef] = {}


def define(
    name: str,
    *,
    family: str,
    arity: int | tuple[int, int | None],
    infer: Infer,
    attributes: type[Any] = NoAttributes,
    traits: frozenset[Trait] | set[Trait] = frozenset(),
    fusion: FusionClass = FusionClass.NONE,
    regions: RegionKind = RegionKind.NONE,
    destinations: Callable[[int], int] | None = None,
    indexing: IndexingMap | ProjectedPermutation | None = None,
    flops: Flops | None = None,
    spec: str = "",
    doc: str = "",
    results: str | tuple[str, str] = "c1",
    counts: str = "arity",
    takes_arrays: bool = True,
) -> OpDef:
    """Add an opcode to the table. The arguments are fields of `OpDef`, with these differences.

    An `arity` of one number means exactly that many operands. `flops` is by default one for each
    element of the result of an elementwise op, unless it has `Trait.NO_ARITHMETIC`, and none for
    others. `results` and `counts` are the parts of labels behind the op's name; one of `results`
    stands for both dimensions and element type.

    Raises:
        VerifyError: INGOT0207 the opcode is declared already; or it has a kind of regions and no
            computations in its attributes, or the reverse.
    """
    if name in _TABLE:
        raise VerifyError(f"opcode {name} is declared twice", code="INGOT0207")
    both = (arity, arity) if isinstance(arity, int) else arity
    callees = _callees(attributes)
    is_called = name == "custom-call" or Trait.DEVICE_ID in traits
    may_have_effects = Trait.SIDE_EFFECT in traits or bool(callees) or is_called
    if bool(callees) != (regions is not RegionKind.NONE):
        message = f"opcode {name} has computations without a kind of regions, or the reverse"
        raise VerifyError(message, code="INGOT0207")
    if fusion is FusionClass.NONE and Trait.ELEMENTWISE in traits:
        fusion = FusionClass.ELEMENTWISE
    if indexing is not None:
        fusion = FusionClass.INJECTIVE
    if destinations is not None:
        fusion = FusionClass.IN_PLACE
    if flops is None:
        computes = Trait.ELEMENTWISE in traits and Trait.NO_ARITHMETIC not in traits
        flops = one_flop_each if computes else no_flops
    kept, anchor = frozenset(traits), spec or name
    prefix = label_prefix(anchor)
    dims, element = (results, results) if isinstance(results, str) else results
    labels = (f"{prefix}_{dims}", f"{prefix}_{element}")
    entry = OpDef(
        name, family, both, attributes, infer, kept, fusion, regions, destinations, indexing,
        flops, anchor, doc, callees, may_have_effects, labels, f"{prefix}_{counts}", takes_arrays,
        _enumerations(attributes),
    )  # fmt: skip
    _TABLE[name] = entry
    register(name, (*kept, fusion, regions))
    return entry


def table() -> dict[str, OpDef]:
    """Return the whole op table, every family loaded."""
    _load_families()
    return _TABLE


def opcodes(where: Callable[[OpDef], bool]) -> tuple[str, ...]:
    """Return the opcodes whose rows satisfy `where`, in the table's order.

    For sets that are fixed when a module is imported, such as a rule's pattern;
    `interfaces.ops_with` returns a set that grows with the table.
    """
    return tuple(name for name, row in table().items() if where(row))


@cache
def _load_families() -> None:
    for family in FAMILIES:
        importlib.import_module(f"ingot.hlo.opset.{family}")


def find(name: str) -> OpDef:
    """Return the declaration of opcode `name`; VerifyError when there is none."""
    found = _TABLE.get(name) or table().get(name)
    if found is None:
        raise VerifyError(f"unknown opcode '{name}'", code="INGOT0208")
    return found


def label_prefix(name: str) -> str:
    """Return the prefix of an op's constraint labels: `dot_general` of `dot-general`."""
    return name.replace("-", "_")


def require(condition: bool, label: str, message: str) -> None:
    """Raise VerifyError naming the constraint `label` unless `condition` holds."""
    if not condition:
        raise VerifyError(message, code="INGOT0210", notes=(f"constraint {label}",))
