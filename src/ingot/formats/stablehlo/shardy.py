# SPDX-License-Identifier: Apache-2.0
"""Converters of Shardy's ops: where values lie when several devices share a program.

As XLA has it in HLO: a constraint is a custom call `Sharding` with the sharding as text. A manual
computation, whose body is the program of one device, takes its operands through
`SPMDFullToShardShape` and gives its results through `SPMDShardToFullShape`. Axes that it leaves to
the compiler divide nothing at its border.

On a mesh of one device they say nothing: a constraint is its operand, a manual computation its
body.

Source: shardy/dialect/sdy/ir/ops.td; xla/service/spmd/shardy/stablehlo_round_trip.
"""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.attributes import shardy
from ingot.formats.stablehlo.mesh_shardings import manual_text, sharding_text
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import find
from ingot.hlo.opset.structural import CustomCallAttributes
from ingot.hlo.shape import Shape


def _annotated(
    site: Site, target: str, operand: Instruction, sharding: str, shape: Shape
) -> Instruction:
    attributes = CustomCallAttributes(target)
    made = site.emit(find("custom-call"), (operand,), attributes, shape)
    made.extra["sharding"] = sharding
    return made


def _constraint(site: Site) -> Results:
    (operand,) = site.operands
    given = site.attributes["sharding"]
    mesh = site.conversion.mesh(given)
    if mesh.size == 1:
        return operand
    return _annotated(site, "Sharding", operand, sharding_text(given, mesh), operand.shape)


def _group(site: Site) -> Results:
    """A wish that values be divided alike: from here on the value is annotated with its group."""
    (operand,) = site.operands
    group = f"{{unknown shard_as {int(site.attributes['group_id'])}}}"
    made = _annotated(site, "Sharding", operand, group, operand.shape)
    site.scope.values[site.op.operands[0]] = made
    return []


def _manual_computation(site: Site) -> Results:
    ins, outs = (_shardings(site.attributes[name]) for name in ("in_shardings", "out_shardings"))
    meshes = [site.conversion.mesh(given) for given in (*ins, *outs)]
    if all(mesh.size == 1 for mesh in meshes):
        return _body(site, site.operands)
    axes = tuple(str(part) for part in shardy(site.attributes["manual_axes"], "ManualAxesAttr"))
    types = site.conversion.types
    block = site.op.regions[0].blocks[0]
    local = [
        _to_shard(site, operand, given, axes, site.known(types.shape(argument.type)))
        for operand, given, argument in zip(site.operands, ins, block.arguments, strict=True)
    ]
    results = _body(site, local)
    return [
        _to_full(site, result, given, axes, shape)
        for result, given, shape in zip(results, outs, site.shapes, strict=True)
    ]


def _shardings(attribute: Any) -> list[Any]:
    return list(shardy(attribute, "TensorShardingPerValueAttr").shardings)


def _body(site: Site, operands: list[Instruction]) -> list[Instruction]:
    """Convert the body in place."""
    block = site.op.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, operands, strict=True):
        site.scope.values[argument] = operand
    return site.conversion.convert_block(site.scope, block)


def _to_shard(
    site: Site, operand: Instruction, given: Any, axes: tuple[str, ...], shape: Shape
) -> Instruction:
    mesh = site.conversion.mesh(given)
    whole = _annotated(site, "Sharding", operand, sharding_text(given, mesh, axes), operand.shape)
    inside = manual_text(mesh, axes, shape.rank)
    return _annotated(site, "SPMDFullToShardShape", whole, inside, shape)


def _to_full(
    site: Site, result: Instruction, given: Any, axes: tuple[str, ...], shape: Shape
) -> Instruction:
    mesh = site.conversion.mesh(given)
    inside = manual_text(mesh, axes, shape.rank)
    part = _annotated(site, "Sharding", result, inside, result.shape)
    return _annotated(site, "SPMDShardToFullShape", part, sharding_text(given, mesh, axes), shape)


def placed_text(site: Site) -> str:
    """Return the sharding of an op that runs on one device only; "" for any other op."""
    if "sdy.sharding" not in site.attributes:
        return ""
    given = _shardings(site.attributes["sdy.sharding"])
    mesh = site.conversion.mesh(given[0]) if given else None
    return sharding_text(given[0], mesh) if mesh is not None and mesh.is_maximal else ""


CONVERTERS: dict[str, Converter] = {
    "sdy.sharding_constraint": _constraint,
    "sdy.sharding_group": _group,
    "sdy.manual_computation": _manual_computation,
}
