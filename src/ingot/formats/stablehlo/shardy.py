"""Converters of Shardy's ops: where values lie when several devices share a program.

On one partition they say nothing: a constraint is its operand, a manual computation its body.

Source: shardy/dialect/sdy/ir/ops.td.
"""

from __future__ import annotations

from ingot.formats.stablehlo.scope import Converter, Results, Site


def _constraint(site: Site) -> Results:
    return site.operands[0]


def _manual_computation(site: Site) -> Results:
    """Convert the body in place."""
    block = site.op.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, site.operands, strict=True):
        site.scope.values[argument] = operand
    return site.conversion.convert_block(site.scope, block)


CONVERTERS: dict[str, Converter] = {
    "sdy.sharding_constraint": _constraint,
    "sdy.manual_computation": _manual_computation,
}
