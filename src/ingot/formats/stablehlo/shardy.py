# SPDX-License-Identifier: Apache-2.0
"""Converters of Shardy's ops: the shardings of values when several devices share a program.

As in XLA's HLO, a constraint, and each step of a reshard, is a custom call `Sharding` with the
sharding as text. A manual computation, whose body is the program of one device along some axes of
the mesh, takes its operands through `SPMDFullToShardShape` and returns its results through
`SPMDShardToFullShape`; inside, texts name these axes, and how the others divide a value.

On a mesh of one device they have no effect: a constraint is its operand, a manual computation its
body.

Source: shardy/dialect/sdy/ir/ops.td; xla/service/spmd/shardy/stablehlo_round_trip.
"""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.attributes import shardy
from ingot.formats.stablehlo.mesh_shardings import Mesh, sharding_text
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import find
from ingot.hlo.opset.structural import CustomCallAttributes
from ingot.hlo.shape import Shape

_STEPS = (
    *("reshard", "all_gather", "all_reduce", "all_slice", "all_to_all", "collective_permute"),
    *("reduce_scatter", "replicated_to_unreduced", "sharded_to_unreduced"),
)


def _annotated(
    site: Site, target: str, operand: Instruction, sharding: str, shape: Shape
) -> Instruction:
    attributes = CustomCallAttributes(target)
    made = site.emit(find("custom-call"), (operand,), attributes, shape)
    made.extra["sharding"] = sharding
    return made


def _constraint(site: Site) -> Results:
    return _divided(site, site.attributes["sharding"])


def _step(site: Site) -> Results:
    """A step of a reshard: the sharding after it determines the movement."""
    name = "out_sharding" if "out_sharding" in site.attributes else "sharding"
    return _divided(site, site.attributes[name])


def _divided(site: Site, given: Any) -> Results:
    (operand,) = site.operands
    mesh = site.conversion.mesh(given)
    if mesh.size == 1:
        return operand
    text = sharding_text(given, mesh, operand.shape.dims, site.conversion.manual_axes)
    return _annotated(site, "Sharding", operand, text, operand.shape)


def _group(site: Site) -> Results:
    """A request to shard values alike: from here on the value is annotated with its group."""
    (operand,) = site.operands
    group = f"{{unknown shard_as {int(site.attributes['group_id'])}}}"
    made = _annotated(site, "Sharding", operand, group, operand.shape)
    site.scope.values[site.op.operands[0]] = made
    return []


def _manual_computation(site: Site) -> Results:
    ins, outs = (_shardings(site.attributes[name]) for name in ("in_shardings", "out_shardings"))
    conversion = site.conversion
    meshes = [conversion.mesh(given) for given in (*ins, *outs)]
    if all(mesh.size == 1 for mesh in meshes):
        return _body(site, site.operands)
    around = conversion.manual_axes, conversion.main_mesh
    axes = tuple(str(part) for part in shardy(site.attributes["manual_axes"], "ManualAxesAttr"))
    block = site.op.regions[0].blocks[0]
    local: list[Instruction] = []
    for operand, given, argument in zip(site.operands, ins, block.arguments, strict=True):
        shape = site.known(conversion.types.shape(argument.type))
        outside, inside = _border(site, given, axes, operand.shape, shape)
        whole = _annotated(site, "Sharding", operand, outside, operand.shape)
        local.append(_annotated(site, "SPMDFullToShardShape", whole, inside, shape))
    conversion.manual_axes, conversion.main_mesh = (*around[0], *axes), meshes[0]
    results = _body(site, local)
    conversion.manual_axes, conversion.main_mesh = around
    found: list[Instruction] = []
    for result, given, shape in zip(results, outs, site.shapes, strict=True):
        outside, inside = _border(site, given, axes, shape, result.shape)
        part = _annotated(site, "Sharding", result, inside, result.shape)
        found.append(_annotated(site, "SPMDShardToFullShape", part, outside, shape))
    return found


def _border(
    site: Site, given: Any, axes: tuple[str, ...], outer: Shape, inner: Shape
) -> tuple[str, str]:
    """Return the texts of a value outside and inside code that is manual along `axes`."""
    around = site.conversion.manual_axes
    mesh = site.conversion.mesh(given)
    outside = sharding_text(given, mesh, outer.dims, around)
    return outside, sharding_text(given, mesh, inner.dims, (*around, *axes))


def _shardings(attribute: Any) -> list[Any]:
    return list(shardy(attribute, "TensorShardingPerValueAttr").shardings)


def _body(site: Site, operands: list[Instruction]) -> list[Instruction]:
    """Convert the body in place."""
    block = site.op.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, operands, strict=True):
        site.scope.values[argument] = operand
    return site.conversion.convert_block(site.scope, block)


def placed_text(site: Site) -> str:
    """Return the sharding of an op that runs on one device only; "" for any other op.

    Such an op has one even if it has no results.
    """
    if "sdy.sharding" not in site.attributes:
        return ""
    given = _shardings(site.attributes["sdy.sharding"])
    mesh = site.conversion.mesh(given[0]) if given else None
    return sharding_text(given[0], mesh, ()) if mesh is not None and mesh.is_maximal else ""


def annotate(site: Site, results: Results, mesh: Mesh) -> None:
    """Keep the shardings of an op's results on `mesh`, with which Shardy annotated every op.

    No annotation means that nothing divides them. That is kept only for control flow, whose state
    the partitioner would find by trial, and for ops without operands inside a manual computation:
    other values there follow from their operands.
    """
    conversion, given = site.conversion, site.attributes
    manual = conversion.manual_axes
    is_said = "sdy.sharding" in given
    if not is_said and not (site.op.regions or (manual and not site.operands)):
        return
    found = [results] if isinstance(results, Instruction) else list(results)
    shardings = _shardings(given["sdy.sharding"]) if is_said else [None] * len(found)
    texts: dict[Instruction, dict[int, str]] = {}
    for result, sharding in zip(found, shardings, strict=False):
        where = conversion.mesh(sharding) if sharding is not None else mesh
        if not where.axes and not where.is_maximal:
            where, sharding = mesh, None
        is_element = result.opcode == "get-tuple-element"
        if result in site.operands or not result.shape.is_array:
            continue
        text = sharding_text(sharding, where, result.shape.dims, manual)
        maker = result.operands[0] if is_element else result
        texts.setdefault(maker, {})[result.attributes.index if is_element else 0] = text
    for maker, parts in texts.items():
        if "sharding" not in maker.extra:
            maker.extra["sharding"] = _joined(maker, parts)


def _joined(maker: Instruction, parts: dict[int, str]) -> str:
    """Return the text of an instruction's value, whose elements (or itself) have `parts`."""
    if not maker.shape.is_tuple:
        return parts[0]
    count = len(maker.shape.elements)
    return "{" + ", ".join(parts.get(dim, "{unknown}") for dim in range(count)) + "}"


CONVERTERS: dict[str, Converter] = {
    "sdy.sharding_constraint": _constraint,
    "sdy.sharding_group": _group,
    "sdy.manual_computation": _manual_computation,
    **{f"sdy.{name}": _step for name in _STEPS},
}
