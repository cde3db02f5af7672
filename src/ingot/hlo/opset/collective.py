# SPDX-License-Identifier: Apache-2.0
"""Collective ops: values that several devices compute together, and device numbers.

Devices form a grid of replicas and partitions. Which of them meet in an op follows from
`replica_groups`, `channel_id` and `use_global_device_ids`: see `ingot.semantics.device_groups`.

Source: StableHLO specification; xla/hlo/ir/hlo_instructions.cc, xla/service/shape_inference.cc.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import U32
from ingot.hlo.interfaces import RegionKind
from ingot.hlo.opdef import Codec, OpView, Trait, attribute, define, label_prefix, require
from ingot.hlo.opset.regions import require_region
from ingot.hlo.shape import Shape
from ingot.support.records import record

FAMILY = "collective"
Groups = tuple[tuple[int, ...], ...]

_COLLECTIVE = {Trait.COLLECTIVE, Trait.SIDE_EFFECT}
_GIVEN = _COLLECTIVE | {Trait.NEEDS_SHAPE}
_EXCHANGE = {Trait.EXCHANGE}


class WrittenGroups(Groups):
    """Groups with a shorter text (`[2,4]<=[8]`, a mesh), which is printed; hashed once."""

    text: str

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("hash")
        if found is None:
            found = self.__dict__["hash"] = super().__hash__()
        return found

    @staticmethod
    def of(groups: Groups, text: str) -> WrittenGroups:
        """Return `groups` with the text they are read from."""
        made = WrittenGroups(groups)
        made.text = text
        return made


@record(kw_only=True)
class GroupAttributes:
    """Attributes of `collective-broadcast`, `ragged-all-to-all` and, as base, of others."""

    channel_id: int | None = attribute(Codec.INT, None)
    replica_groups: Groups | None = attribute(Codec.GROUPS, None)
    constrain_layout: bool = attribute(Codec.BOOL, False)
    mode: str = attribute(Codec.NAME, "")


@record(kw_only=True)
class AllReduceAttributes(GroupAttributes):
    """Attributes of `all-reduce` and `all-reduce-start`."""

    use_global_device_ids: bool = attribute(Codec.BOOL, False)
    to_apply: Computation = attribute(Codec.COMPUTATION)


@record(kw_only=True)
class ReduceScatterAttributes(GroupAttributes):
    """Attributes of `reduce-scatter`; `dimensions` is the one that is divided."""

    use_global_device_ids: bool = attribute(Codec.BOOL, False)
    dimensions: tuple[int, ...] = attribute(Codec.INTS)
    to_apply: Computation = attribute(Codec.COMPUTATION)


@record(kw_only=True)
class AllGatherAttributes(GroupAttributes):
    """Attributes of `all-gather` and `all-gather-start`; `dimensions` is the one that grows."""

    dimensions: tuple[int, ...] = attribute(Codec.INTS)
    use_global_device_ids: bool = attribute(Codec.BOOL, False)


@record(kw_only=True)
class AllToAllAttributes(GroupAttributes):
    """Attributes of `all-to-all`; without `dimensions` each operand goes to one device."""

    dimensions: tuple[int, ...] = attribute(Codec.INTS, ())


@record(kw_only=True)
class PermuteAttributes:
    """Attributes of `collective-permute` and its start; a device without a source gets zeros."""

    channel_id: int | None = attribute(Codec.INT, None)
    source_target_pairs: Groups = attribute(Codec.PAIRS)
    slice_sizes: Groups = attribute(Codec.GROUPS, ())
    mode: str = attribute(Codec.NAME, "")


def _dimension(view: OpView) -> int:
    """Return the op's one dimension."""
    dimensions: tuple[int, ...] = view.attributes.dimensions
    label = f"{label_prefix(view.opcode)}_c1"
    require(
        len(dimensions) == 1, label, f"{view.opcode} goes along one dimension, not {dimensions}"
    )
    return dimensions[0]


def _require_groups(view: OpView, labels: tuple[str, str, str], *, uniform: bool = True) -> None:
    """Check `replica_groups`: labels of uniqueness, of the size, and of the range.

    As in XLA, groups name 0, 1, ... up to some number, each once. Whether there are as many devices
    is known when the program is compiled for a grid of them (`groups_of`).
    """
    groups: Groups = view.attributes.replica_groups or ()
    prefix, (unique, size, within) = label_prefix(view.opcode), labels
    found = _facts(groups)
    if not found.is_unique:
        require(False, f"{prefix}_{unique}", f"replica_groups {groups} name one twice")
    if not found.is_range:
        message = f"replica_groups {groups} do not name 0 to {found.named - 1}"
        require(False, f"{prefix}_{within}", message)
    if found.has_empty or (uniform and not found.is_uniform):
        require(False, f"{prefix}_{size}", f"replica_groups {groups} are of different sizes")


class _Facts(NamedTuple):
    """Properties of groups that are checked; computed once for all ops with the same groups."""

    named: int
    is_unique: bool
    is_range: bool
    is_uniform: bool
    has_empty: bool


@lru_cache(1 << 8)
def _facts(groups: Groups) -> _Facts:
    named = [one for group in groups for one in group]
    return _Facts(
        named=len(named),
        is_unique=len(set(named)) == len(named),
        is_range=sorted(named) == list(range(len(named))),
        is_uniform=len({len(group) for group in groups}) <= 1,
        has_empty=not all(groups),
    )


def _require_ids(view: OpView, label: str) -> None:
    """Check that global device ids come with a channel."""
    given = view.attributes
    if given.use_global_device_ids and not (given.channel_id or 0) > 0:
        name = f"{label_prefix(view.opcode)}_{label}"
        require(False, name, f"{view.opcode} with use_global_device_ids needs a channel_id")


def _joined(shapes: tuple[Shape, ...]) -> Shape:
    """Return a single shape itself, several as a tuple."""
    return shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)


def _parts(shape: Shape, count: int) -> tuple[Shape, ...]:
    """Return the shapes of `count` results."""
    return shape.elements if shape.is_tuple and count != 1 else (shape,)


def _require_reducer(label: str, called: Computation, operands: tuple[Shape, ...]) -> None:
    for operand in operands:
        require(operand.is_array, label, f"a reduction over devices takes arrays, not {operand}")
        require_region(label, called, (operand.dtype,) * 2, (operand.dtype,))


def _infer_all_reduce(view: OpView) -> Shape:
    _require_groups(view, ("c1", "c2", "c3"), uniform=False)
    _require_ids(view, "c4")
    _require_reducer("all_reduce_c5", view.attributes.to_apply, view.operands)
    return _joined(view.operands)


def _infer_all_gather(view: OpView) -> Shape:
    given = view.given()
    _require_gathered(view, given)
    return given


def _require_gathered(view: OpView, result: Shape) -> None:
    dimension = _dimension(view)
    _require_groups(view, ("c2", "c3", "c4"))
    _require_ids(view, "c5")
    parts = _parts(result, len(view.operands))
    require(
        len(parts) == len(view.operands),
        "all_gather_c6",
        f"all-gather gives a result for each operand, not {result}",
    )
    for operand, part in zip(view.operands, parts, strict=True):
        require(
            0 <= dimension < operand.rank,
            "all_gather_c1",
            f"{operand} has no dimension {dimension}",
        )
        same = operand.dtype is part.dtype and operand.rank == part.rank
        others = [n for n in range(operand.rank) if n != dimension]
        require(
            same and all(operand.dims[n] == part.dims[n] for n in others),
            "all_gather_c6",
            f"all-gather of {operand} along dimension {dimension} does not give {part}",
        )
        require(
            operand.dims[dimension] == 0
            or dim.mod(part.dims[dimension], operand.dims[dimension]) == 0,
            "all_gather_c6",
            f"{part} is not a whole number of parts {operand}",
        )


def _infer_all_gather_start(view: OpView) -> Shape:
    given = view.given()
    require(
        given.is_tuple
        and len(given.elements) == 2
        and given.elements[0].compatible(_joined(view.operands)),
        "all_gather_start_c1",
        f"all-gather-start gives operands and results, not {given}",
    )
    _require_gathered(view, given.elements[1])
    return given


def _infer_reduce_scatter(view: OpView) -> Shape:
    given = view.given()
    _require_groups(view, ("c3", "c4", "c5"))
    _require_ids(view, "c6")
    _require_reducer("reduce_scatter_c7", view.attributes.to_apply, view.operands)
    dimension = _dimension(view)
    parts = _parts(given, len(view.operands))
    require(
        len(parts) == len(view.operands),
        "reduce_scatter_c8",
        f"reduce-scatter gives a result for each operand, not {given}",
    )
    for operand, part in zip(view.operands, parts, strict=True):
        require(
            0 <= dimension < operand.rank,
            "reduce_scatter_c2",
            f"{operand} has no dimension {dimension}",
        )
        fits = operand.rank == part.rank and all(
            have == want or n == dimension
            for n, (have, want) in enumerate(zip(operand.dims, part.dims, strict=True))
        )
        message = f"reduce-scatter of {operand} does not give {part}"
        require(fits, "reduce_scatter_c8", message)
        require(operand.dtype is part.dtype, "reduce_scatter_c9", message)
        whole = (
            part.dims[dimension] == 0 or dim.mod(operand.dims[dimension], part.dims[dimension]) == 0
        )
        require(whole, "reduce_scatter_c1", message)
    return given


def _infer_all_to_all(view: OpView) -> Shape:
    dimensions: tuple[int, ...] = view.attributes.dimensions
    _require_groups(view, ("c5", "c6", "c7"))
    if not dimensions:
        first = view.operands[0]
        groups: Groups = view.attributes.replica_groups or ()
        if groups and len(groups[0]) != len(view.operands):
            message = f"{len(view.operands)} operands for groups of {len(groups[0])} devices"
            require(False, "all_to_all_c8", message)
        for operand in view.operands:
            require(
                operand.compatible(first),
                "all_to_all_c1",
                f"all-to-all takes operands of one shape, got {first} and {operand}",
            )
        given = view.declared
        # XLA writes a tuple even around one operand.
        alone = len(view.operands) == 1 and given is not None and not given.is_tuple
        return first if alone else Shape.tuple(view.operands)
    operand = view.operands[0]
    require(
        len(view.operands) == 1, "all_to_all_c1", "all-to-all along a dimension takes one operand"
    )
    dimension = _dimension(view)
    require(
        0 <= dimension < operand.rank, "all_to_all_c1", f"{operand} has no dimension {dimension}"
    )
    groups = view.attributes.replica_groups or ()
    if groups and dim.mod(operand.dims[dimension], len(groups[0])) != 0:
        message = f"dimension {dimension} of {operand} is not divided by {len(groups[0])} devices"
        require(False, "all_to_all_c2", message)
    return operand


def _infer_broadcast(view: OpView) -> Shape:
    _require_groups(view, ("c1", "size", "c2"))
    return _joined(view.operands)


def _infer_permute(view: OpView) -> Shape:
    _require_pairs(view)
    if not view.attributes.slice_sizes:
        for operand in view.operands:
            message = f"collective-permute takes arrays, got {operand}"
            require(operand.is_array, "collective_permute_i1", message)
        return _joined(view.operands)
    # In place: the source, the destination, and the offsets of both.
    require(
        len(view.operands) == 4,
        "collective_permute_i1",
        "an in-place collective-permute takes four operands",
    )
    return view.operands[1]


def _require_pairs(view: OpView) -> None:
    pairs = view.attributes.source_target_pairs
    require(
        all(len(pair) == 2 for pair in pairs),
        "collective_permute_c1",
        f"source_target_pairs {pairs} are not pairs",
    )
    for side, name, label in ((0, "source", "c2"), (1, "target", "c3")):
        devices = [pair[side] for pair in pairs]
        require(
            len(set(devices)) == len(devices),
            f"collective_permute_{label}",
            f"a {name} is twice in source_target_pairs {pairs}",
        )
        message = f"a {name} of source_target_pairs {pairs} is negative"
        require(min(devices, default=0) >= 0, "collective_permute_c4", message)


def _infer_permute_start(view: OpView) -> Shape:
    given = view.given()
    _require_pairs(view)
    require(
        given.is_tuple and len(given.elements) >= 2,
        "collective_permute_start_c1",
        f"collective-permute-start gives operands, results and contexts, not {given}",
    )
    return given


def _infer_ragged(view: OpView) -> Shape:
    operand, output, *sizes = view.operands
    require(
        operand.dtype is output.dtype and operand.dims[1:] == output.dims[1:],
        "ragged_all_to_all_c1",
        f"ragged-all-to-all from {operand} to {output}",
    )
    for size in sizes:
        require(
            size.rank == 1 and size.dtype.is_integer and size.dims == sizes[0].dims,
            "ragged_all_to_all_c2",
            f"ragged-all-to-all offsets and sizes are vectors of integers, not {size}",
        )
    return output


def _infer_second(view: OpView) -> Shape:
    """The results out of the tuple that a start gives."""
    (start,) = view.operands
    count = len(start.elements)
    require(
        count >= 2,
        f"{view.opcode.replace('-', '_')}_c1",
        f"{view.opcode} takes what its start gives, not {start}",
    )
    return start.elements[1]


def _infer_first(view: OpView) -> Shape:
    return view.operands[0]


def _infer_device(view: OpView) -> Shape:
    return Shape.array(U32, ())


define("all-reduce", family=FAMILY, arity=(1, None), infer=_infer_all_reduce, spec="all_reduce",
       attributes=AllReduceAttributes, traits=_COLLECTIVE | _EXCHANGE, results=("c6", "c7"),
       regions=RegionKind.DEVICE,
       doc="each element combined over the devices of a group")  # fmt: skip
define("all-reduce-start", family=FAMILY, arity=(1, None), infer=_infer_all_reduce,
       attributes=AllReduceAttributes, traits=_COLLECTIVE, regions=RegionKind.DEVICE,
       doc="begins an all-reduce")  # fmt: skip
define("all-reduce-done", family=FAMILY, arity=1, takes_arrays=False, infer=_infer_first,
       traits=_COLLECTIVE, doc="the value of an all-reduce-start")  # fmt: skip
define("all-gather", family=FAMILY, arity=(1, None), infer=_infer_all_gather, spec="all_gather",
       attributes=AllGatherAttributes, traits=_GIVEN | _EXCHANGE,
       doc="the operands of a group's devices, one after the other")  # fmt: skip
define("all-gather-start", family=FAMILY, arity=(1, None), infer=_infer_all_gather_start,
       attributes=AllGatherAttributes, traits=_GIVEN, doc="begins an all-gather")  # fmt: skip
define("all-gather-done", family=FAMILY, arity=1, takes_arrays=False, infer=_infer_second,
       traits=_COLLECTIVE, doc="the value of an all-gather-start")  # fmt: skip
define("reduce-scatter", family=FAMILY, arity=(1, None), infer=_infer_reduce_scatter,
       attributes=ReduceScatterAttributes, traits=_GIVEN | _EXCHANGE, regions=RegionKind.DEVICE,
       spec="reduce_scatter",
       doc="an all-reduce of which each device keeps its part")  # fmt: skip
define("all-to-all", family=FAMILY, arity=(1, None), infer=_infer_all_to_all, spec="all_to_all",
       attributes=AllToAllAttributes, traits=_COLLECTIVE | _EXCHANGE, results="c9",
       doc="part k of each device goes to device k")  # fmt: skip
define("ragged-all-to-all", family=FAMILY, arity=6, infer=_infer_ragged,
       attributes=GroupAttributes, traits=_COLLECTIVE,
       doc="all-to-all of rows, as many as the operands say")  # fmt: skip
define("collective-broadcast", family=FAMILY, arity=(1, None), infer=_infer_broadcast,
       attributes=GroupAttributes, traits=_COLLECTIVE | _EXCHANGE, results="c3",
       doc="the operand of the group's first device")  # fmt: skip
define("collective-permute", family=FAMILY, arity=(1, None), infer=_infer_permute,
       attributes=PermuteAttributes, traits=_COLLECTIVE | _EXCHANGE, results="c5",
       takes_arrays=False, doc="the operand of another device, or zeros")  # fmt: skip
define("collective-permute-start", family=FAMILY, arity=(1, None), infer=_infer_permute_start,
       attributes=PermuteAttributes, traits=_GIVEN, takes_arrays=False,
       doc="begins a collective-permute")  # fmt: skip
define("collective-permute-done", family=FAMILY, arity=1, takes_arrays=False, infer=_infer_second,
       traits=_COLLECTIVE, doc="the value of a collective-permute-start")  # fmt: skip
define("partition-id", family=FAMILY, arity=0, infer=_infer_device, results="o1",
       traits={Trait.DEVICE_ID},
       doc="the number of this device's partition")  # fmt: skip
define("replica-id", family=FAMILY, arity=0, infer=_infer_device, results="o1",
       traits={Trait.DEVICE_ID},
       doc="the number of this device's replica")  # fmt: skip
