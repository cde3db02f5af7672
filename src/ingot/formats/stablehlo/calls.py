# SPDX-License-Identifier: Apache-2.0
"""Calls of functions, and results that are tuples: used by several families."""

from __future__ import annotations

from ingot.formats.stablehlo.scope import Results, Site
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import find
from ingot.hlo.opset.control import CallAttributes


def results_of(site: Site, made: Instruction) -> Results:
    """Return the op's results: `made` itself if there is one, otherwise its elements."""
    if len(site.op.results) == 1:
        return made
    return [site.scope.element(made, n, part) for n, part in enumerate(made.shape.elements)]


def call_computation(site: Site, called: Computation, operands: list[Instruction]) -> Results:
    """Add a call."""
    attributes = CallAttributes(called)
    return results_of(site, site.emit(find("call"), operands, attributes, called.root.shape))


def call_function(site: Site, function: str) -> Results:
    """Add a call of the function `function` with the site's operands."""
    conversion = site.conversion
    if conversion.is_dynamic:
        results = conversion.inline(site.scope, function, site.operands)
        return results[0] if len(results) == 1 else results
    return call_computation(site, conversion.function(function), site.operands)
