# SPDX-License-Identifier: Apache-2.0
"""Converters of ops between devices, and between the program and its host.

HLO's `all-to-all` splits and joins along one dimension; StableHLO may join along another one, to
which a transpose then moves the pieces. `send`, `recv`, `infeed` and `outfeed` take one value in
HLO: several are a tuple. A send or recv becomes a pair of start and done.

Source: xla/hlo/builder/xla_builder.cc (AllToAllArray), mhlo_to_hlo's exporter.
"""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.attributes import Groups, channel, groups, integer_of, integers
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.dtype import U32
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import find
from ingot.hlo.opset.collective import (
    AllGatherAttributes,
    AllReduceAttributes,
    AllToAllAttributes,
    GroupAttributes,
    PermuteAttributes,
    ReduceScatterAttributes,
)
from ingot.hlo.opset.transfer import ChannelAttributes, InfeedAttributes, OutfeedAttributes
from ingot.hlo.shape import Shape

# ---- collectives


def _channel(site: Site) -> int | None:
    """Return the channel; 0 is none, as in XLA's proto."""
    if "channel_handle" not in site.attributes:
        return None
    return channel(site.attributes["channel_handle"]) or None


def _group(site: Site) -> dict[str, Any]:
    """Return the attributes that every op on groups has."""
    given = site.attributes["replica_groups"]
    return {"channel_id": _channel(site), "replica_groups": _listed(site, given)}


def _listed(site: Site, given: Any) -> Groups:
    """Return groups of devices; UnsupportedError if they are not listed."""
    if not hasattr(given, "shape") and not hasattr(given, "type"):
        raise site.unsupported(
            f"its groups are {given}", "write the groups as numbers of devices, as XLA wants them"
        )
    return groups(given)


def _global(site: Site) -> dict[str, Any]:
    return _group(site) | {"use_global_device_ids": "use_global_device_ids" in site.attributes}


def _add(site: Site, opcode: str, attributes: Any) -> Results:
    return site.elements(site.emit(find(opcode), site.operands, attributes, site.result_shape()))


def _all_reduce(site: Site) -> Results:
    reducer = site.conversion.reducer(site, site.op.regions[0])
    return _add(site, "all-reduce", AllReduceAttributes(**_global(site), to_apply=reducer))


def _all_gather(site: Site) -> Results:
    dimensions = integers(site.attributes["all_gather_dim"])
    return _add(site, "all-gather", AllGatherAttributes(**_global(site), dimensions=dimensions))


def _reduce_scatter(site: Site) -> Results:
    attributes = ReduceScatterAttributes(
        **_global(site),
        to_apply=site.conversion.reducer(site, site.op.regions[0]),
        dimensions=integers(site.attributes["scatter_dimension"]),
    )
    return _add(site, "reduce-scatter", attributes)


def _collective_broadcast(site: Site) -> Results:
    return _add(site, "collective-broadcast", GroupAttributes(**_group(site)))


def _collective_permute(site: Site) -> Results:
    pairs = groups(site.attributes["source_target_pairs"])
    attributes = PermuteAttributes(channel_id=_channel(site), source_target_pairs=pairs)
    return _add(site, "collective-permute", attributes)


def _all_to_all(site: Site) -> Results:
    (split,) = integers(site.attributes["split_dimension"])
    (join,) = integers(site.attributes["concat_dimension"])
    (count,) = integers(site.attributes["split_count"])
    attributes = AllToAllAttributes(**_group(site), dimensions=(split,))
    made = [
        site.emit(find("all-to-all"), (operand,), attributes, operand.shape)
        for operand in site.operands
    ]
    results = [
        one if split == join else _moved(site, one, (split, join, count), shape)
        for one, shape in zip(made, site.shapes, strict=True)
    ]
    return results[0] if len(results) == 1 else results


def _moved(site: Site, value: Instruction, how: tuple[int, int, int], shape: Shape) -> Instruction:
    """Move the pieces of dimension `split` to dimension `join`."""
    split, join, count = how
    dims = value.shape.dims
    pieces = (*dims[:split], count, dims[split] // count, *dims[split + 1 :])
    order: list[int] = []
    for dim in range(len(dims)):
        if dim == join:
            order.append(split)
        order.append(dim + 1 if dim >= split else dim)
    builder = site.builder
    moved = builder.transpose(builder.reshape_to(value, pieces), dimensions=tuple(order))
    return builder.reshape_to(moved, shape.dims)


def ragged_all_to_all(site: Site) -> Results:
    """Convert a custom call of JAX's, since StableHLO has no such op.

    Its configuration is a dictionary with the groups and the channel.

    Raises:
        UnsupportedError: the configuration is not such a dictionary.
    """
    try:
        given = site.attributes["backend_config"]
        groups_given = given["replica_groups"]
    except (KeyError, TypeError) as problem:
        hint = "its backend_config must be a dictionary with replica_groups"
        raise site.unsupported("it has no groups", hint) from problem
    attributes = GroupAttributes(
        channel_id=(integer_of(given, "channel_id") or None) if "channel_id" in given else None,
        replica_groups=_listed(site, groups_given),
    )
    return site.emit(find("ragged-all-to-all"), site.operands, attributes, site.result_shape())


# ---- tokens and the host


def _one_value(site: Site, values: list[Instruction]) -> Instruction:
    return values[0] if len(values) == 1 else site.tuple_of(values)


def _transfer(site: Site) -> ChannelAttributes:
    given = site.attributes
    is_host = "is_host_transfer" in given and bool(given["is_host_transfer"].value)
    return ChannelAttributes(channel_id=_channel(site), is_host_transfer=is_host)


def _send(site: Site) -> Results:
    *values, token = site.operands
    attributes, data = _transfer(site), _one_value(site, values)
    shape = Shape.tuple((data.shape, Shape.array(U32, ()), Shape.token()))
    start = site.emit(find("send"), (data, token), attributes, shape)
    return site.emit(find("send-done"), (start,), attributes, Shape.token())


def _recv(site: Site) -> Results:
    *parts, token = site.shapes
    attributes = _transfer(site)
    data = parts[0] if len(parts) == 1 else Shape.tuple(tuple(parts))
    shape = Shape.tuple((data, Shape.array(U32, ()), token))
    start = site.emit(find("recv"), site.operands, attributes, shape)
    done = site.emit(find("recv-done"), (start,), attributes, Shape.tuple((data, token)))
    return _data_and_token(site, done, is_tuple=len(parts) != 1)


def _data_and_token(site: Site, pair: Instruction, *, is_tuple: bool) -> list[Instruction]:
    """Return the values of (data, token), the data's elements one by one when it is a tuple."""
    data, token = pair.shape.elements
    element = site.scope.element
    value = element(pair, 0, data)
    values = (
        [element(value, n, part) for n, part in enumerate(data.elements)] if is_tuple else [value]
    )
    return [*values, element(pair, 1, token)]


def _infeed(site: Site) -> Results:
    *parts, token = site.shapes
    shape = Shape.tuple((Shape.tuple(tuple(parts)), token))
    attributes = InfeedAttributes(infeed_config=_text(site, "infeed_config"))
    made = site.emit(find("infeed"), site.operands, attributes, shape)
    return _data_and_token(site, made, is_tuple=True)


def _outfeed(site: Site) -> Results:
    *values, token = site.operands
    data = _one_value(site, values)
    attributes = OutfeedAttributes(
        outfeed_shape=str(data.shape), outfeed_config=_text(site, "outfeed_config")
    )
    return site.emit(find("outfeed"), (data, token), attributes, Shape.token())


def _text(site: Site, name: str) -> str:
    return str(site.attributes[name].value) if name in site.attributes else ""


CONVERTERS: dict[str, Converter] = {
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.all_gather": _all_gather,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.collective_broadcast": _collective_broadcast,
    "stablehlo.collective_permute": _collective_permute,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.send": _send,
    "stablehlo.recv": _recv,
    "stablehlo.infeed": _infeed,
    "stablehlo.outfeed": _outfeed,
}
