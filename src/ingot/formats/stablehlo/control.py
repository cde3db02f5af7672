# SPDX-License-Identifier: Apache-2.0
"""Converters of control flow and calls: while, if, case, call, composite.

Regions of control flow may use values of the surrounding blocks. HLO's computations may not, so
such values become elements of the state tuple, after the op's own operands, and a loop passes them
on unchanged. Constants are copied into the region instead.

A loop's state is always a tuple, whatever the number of its elements.
"""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.calls import call_function, results_of
from ingot.formats.stablehlo.composites import native
from ingot.formats.stablehlo.scope import Captures, Converter, Results, Scope, Site
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import NO_ATTRIBUTES, find
from ingot.hlo.opset.control import ConditionalAttributes, WhileAttributes
from ingot.hlo.shape import Shape
from ingot.semantics.custom_calls import ORDER


def _while(site: Site) -> Results:
    conversion = site.conversion
    count = len(site.operands)
    captures = Captures(first=count)
    regions = site.op.regions
    sizes = _invariant_sizes(site)
    condition, (keep_going,) = conversion.state_region(site, regions[0], captures, "cond", sizes)
    body, results = conversion.state_region(site, regions[1], captures, "body", sizes)
    state = site.tuple_of([*site.operands, *captures.values])
    for scope in (condition, body):
        _give_state(scope, state.shape)
    passed_on = [
        _state_element(body, count + number, value.shape)
        for number, value in enumerate(captures.values)
    ]
    _keep_tuple(body, [*results, *passed_on])
    conversion.keep(condition.computation, keep_going)
    attributes = WhileAttributes(condition.computation, body.computation)
    made = site.emit(find("while"), (state,), attributes, state.shape)
    return [site.scope.element(made, n, site.operands[n].shape) for n in range(count)]


def _invariant_sizes(site: Site) -> dict[int, Instruction]:
    """Return the operands that are sizes and that the loop does not change, by number.

    The body's shapes may depend on them, so the regions compute them from the outer values.
    """
    conversion = site.conversion
    if not conversion.is_dynamic:
        return {}
    block = site.op.regions[1].blocks[0]
    returned = list(block.operations)[-1].operands
    return {
        number: operand
        for number, operand in enumerate(site.operands)
        if returned[number] == block.arguments[number] and conversion.sizes_of(operand) is not None
    }


def _give_state(scope: Scope, shape: Shape) -> None:
    """Set the state parameter's shape, now that every captured value is known."""
    assert scope.state is not None
    scope.computation.set_shape(scope.state, shape)


def _state_element(scope: Scope, index: int, shape: Shape) -> Instruction:
    assert scope.state is not None
    return scope.element(scope.state, index, shape)


def _keep_tuple(scope: Scope, results: list[Instruction]) -> Computation:
    shape = Shape.tuple(tuple(result.shape for result in results))
    root = scope.insert(find("tuple"), results, shape)
    return scope.conversion.keep(scope.computation, root)


def _conditional(site: Site) -> Results:
    conversion = site.conversion
    branches: list[Computation] = []
    states: list[Instruction] = []
    for number, region in enumerate(site.op.regions):
        captures = Captures()
        scope, results = conversion.state_region(site, region, captures, f"branch_{number}")
        state = site.tuple_of(captures.values)
        _give_state(scope, state.shape)
        states.append(state)
        branches.append(conversion.keep(scope.computation, scope.packed(results)))
    attributes = ConditionalAttributes(tuple(branches))
    operands = (site.operands[0], *states)
    made = site.emit(find("conditional"), operands, attributes, branches[0].root.shape)
    return results_of(site, made)


def _call(site: Site) -> Results:
    return call_function(site, site.attributes["callee"].value)


def _async_start(site: Site) -> Results:
    """An asynchronous op runs at once: the future is its result, or the tuple of its results."""
    block = site.op.regions[0].blocks[0]
    site.scope.values.update(zip(block.arguments, site.operands, strict=True))
    return site.scope.packed(site.conversion.convert_block(site.scope, block))


def _async_done(site: Site) -> Results:
    """Return the future's values, behind a barrier if a note about an order names the pair.

    What notes say of the end then holds for the barrier; what they say of the start, for the op.
    """
    (value,) = site.operands
    (future,) = site.op.operands
    uses = [use for one in (future, *site.op.results) for use in one.uses]
    is_ordered = any(_is_order(use.owner.operation) for use in uses)
    return results_of(site, _barrier(site, value) if is_ordered else value)


def _is_order(operation: Any) -> bool:
    if operation.name != "stablehlo.custom_call":
        return False
    return operation.attributes["call_target_name"].value == ORDER


def _optimization_barrier(site: Site) -> Results:
    """HLO's barrier has one operand: several are a tuple."""
    if len(site.operands) == 1:
        return site.add(find("opt-barrier"))
    return results_of(site, _barrier(site, site.tuple_of(site.operands)))


def _barrier(site: Site, value: Instruction) -> Instruction:
    return site.emit(find("opt-barrier"), (value,), NO_ATTRIBUTES, value.shape)


def _composite(site: Site) -> Results:
    found = native(site, site.attributes["name"].value, _composite_attributes(site))
    if found is not None:
        return found
    return call_function(site, site.attributes["decomposition"].value)


def _composite_attributes(site: Site) -> dict[str, Any]:
    if "composite_attributes" not in site.attributes:
        return {}
    return {item.name: item.attr for item in site.attributes["composite_attributes"]}


CONVERTERS: dict[str, Converter] = {
    "stablehlo.while": _while,
    "stablehlo.if": _conditional,
    "stablehlo.case": _conditional,
    "stablehlo.async_start": _async_start,
    "stablehlo.async_done": _async_done,
    "stablehlo.optimization_barrier": _optimization_barrier,
    "func.call": _call,
    "stablehlo.composite": _composite,
}
