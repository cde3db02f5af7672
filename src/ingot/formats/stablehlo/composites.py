"""CHLO ops and composites that Ingot has itself.

JAX writes `chlo.top_k`, `chlo.erf` … as `stablehlo.composite` with a decomposition; MLIR text may
hold the CHLO op itself, and older artifacts a custom call `mhlo.topk`. Each is the native op where
the op table has one for these operands, and its decomposition otherwise.
"""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.opdef import NoAttributes, OpDef, table
from ingot.hlo.opset.elementwise import AccuracyAttributes
from ingot.hlo.opset.indexing import TopKAttributes
from ingot.support.diagnostics import VerifyError

_DIALECTS = ("chlo.", "mhlo.")
# CHLO's or MHLO's name where it is not the opcode.
_OPCODES = {"top_k": "topk"}


def native(site: Site, name: str, attributes: dict[str, Any]) -> Results | None:
    """Return the results of the native op for the composite `name`, or None."""
    if not name.startswith(_DIALECTS):
        return None
    _, _, plain = name.partition(".")
    definition = table().get(_OPCODES.get(plain, plain.replace("_", "-")))
    if definition is None:
        return None
    if definition.name == "topk":
        return _topk(site, definition, attributes)
    if definition.attributes not in (NoAttributes, AccuracyAttributes):
        return None
    return site.add(definition, definition.attributes()) if _takes(site, definition) else None


def _takes(site: Site, definition: OpDef) -> bool:
    """Whether the native op takes these operands and gives the declared result."""
    if len(site.operands) != definition.arity[0] or len(site.op.results) != 1:
        return False
    from ingot.hlo.opdef import OpView

    shapes = tuple(operand.shape for operand in site.operands)
    try:
        found = definition.infer(OpView(definition.name, shapes, definition.attributes()))
    except VerifyError:
        return False
    return found.compatible(site.shape)


def _topk(site: Site, definition: OpDef, attributes: dict[str, Any]) -> Results:
    largest = bool(attributes["largest"].value) if "largest" in attributes else True
    given = TopKAttributes(int(attributes["k"].value), largest)
    made = site.emit(definition, site.operands, given, site.result_shape())
    return site.elements(made)


CONVERTERS: dict[str, Converter] = {}
