# SPDX-License-Identifier: Apache-2.0
"""CHLO ops and composites: the native op where there is one, else the decomposition.

JAX writes `chlo.top_k`, `chlo.erf` … as `stablehlo.composite`, with a function that computes the
same; MLIR text may have the CHLO op itself, and older artifacts a custom call `mhlo.topk`. If the
op table has no such op for these operands, a composite calls its function, and MLIR's own passes
rewrite a CHLO op (or a deprecated op of StableHLO) to ops that Ingot reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.formats.stablehlo.attributes import integer_of, integers_of
from ingot.formats.stablehlo.binding import legalized, mlir
from ingot.formats.stablehlo.calls import call_computation
from ingot.formats.stablehlo.computing import dot_dimensions
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.computation import Computation
from ingot.hlo.opdef import NoAttributes, OpDef, OpView, find, table
from ingot.hlo.opset.dots import RaggedDotAttributes
from ingot.hlo.opset.elementwise import AccuracyAttributes
from ingot.hlo.opset.indexing import TopKAttributes
from ingot.hlo.opset.transforms import ScanAttributes
from ingot.support.diagnostics import VerifyError

_DIALECTS = ("chlo.", "mhlo.")
# CHLO's or MHLO's name where it is not the opcode.
_OPCODES = {"top_k": "topk"}
# The dimensions of a ragged dot, as `RaggedDotAttributes` and a composite's attributes name them.
_RAGGED = (
    "lhs_batch_dims",
    "lhs_contracting_dims",
    "rhs_batch_dims",
    "rhs_contracting_dims",
    "lhs_ragged_dims",
    "rhs_group_dims",
)
# The ops of CHLO that are another op here or that MLIR rewrites.
_CHLO = """
    acos acosh asin asinh atan atanh _asin_acos_kernel bessel_i1e broadcast_add broadcast_and
    broadcast_atan2 broadcast_compare broadcast_complex broadcast_divide broadcast_maximum
    broadcast_minimum broadcast_multiply broadcast_next_after broadcast_or broadcast_polygamma
    broadcast_power broadcast_remainder broadcast_select broadcast_shift_left
    broadcast_shift_right_arithmetic broadcast_shift_right_logical broadcast_subtract broadcast_xor
    broadcast_zeta conj constant_like cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf
    lgamma mulhi next_after polygamma sinh square tan top_k zeta
"""
# Ops of StableHLO that its specification no longer has; `deprecated` has the others.
_DEPRECATED = ("cross-replica-sum",)
_CHLO_PASSES = "func.func(chlo-legalize-to-stablehlo)"
_DEPRECATED_PASSES = "func.func(stablehlo-legalize-deprecated-ops)"


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
    if definition.name == "ragged-dot":
        return _ragged_dot(site, definition, [integers_of(attributes, key) for key in _RAGGED])
    if definition.attributes not in (NoAttributes, AccuracyAttributes):
        return None
    given = definition.attributes()
    return site.add(definition, given) if _takes(site, definition, given) else None


def _takes(site: Site, definition: OpDef, attributes: Any) -> bool:
    """Whether the native op supports these operands and has the declared result."""
    if len(site.operands) != definition.arity[0] or len(site.op.results) != 1:
        return False
    shapes = tuple(operand.shape for operand in site.operands)
    try:
        found = definition.infer(OpView(definition.name, shapes, attributes))
    except VerifyError:
        return False
    return found.compatible(site.shape)


def _topk(site: Site, definition: OpDef, attributes: dict[str, Any]) -> Results:
    largest = bool(integer_of(attributes, "largest")) if "largest" in attributes else True
    given = TopKAttributes(integer_of(attributes, "k"), largest)
    made = site.emit(definition, site.operands, given, site.result_shape())
    return site.elements(made)


def _ragged_dot(site: Site, definition: OpDef, dims: Sequence[tuple[int, ...]]) -> Results | None:
    """HLO's ragged-dot, by one vector of group sizes; None where each batch has its own.

    `dims` are those of `_RAGGED`. CPUs multiply with full precision, whatever is asked for.
    """
    lhs_batch, lhs_contracting, rhs_batch, rhs_contracting, ragged, groups = dims
    given = RaggedDotAttributes(
        lhs_batch,
        lhs_contracting,
        rhs_batch,
        rhs_contracting,
        lhs_ragged_dims=ragged,
        rhs_group_dims=groups,
    )
    is_taken = site.operands[-1].shape.rank == 1 and _takes(site, definition, given)
    return site.add(definition, given) if is_taken else None


def _scan(site: Site) -> Results:
    """HLO's scan; MLIR's rewrite of a scan would always go forward."""
    given = site.attributes
    inputs, carries = given["operandSegmentSizes"]
    attributes = ScanAttributes(
        dimensions=(given["dimension"].value,),
        num_carries=carries,
        is_reverse="is_reverse" in given and bool(given["is_reverse"].value),
        to_apply=site.conversion.reducer(site, site.op.regions[0]),
    )
    assert inputs + carries == len(site.operands)
    return site.elements(site.emit(find("scan"), site.operands, attributes, site.result_shape()))


# ---- ops that MLIR rewrites


def _chlo(site: Site) -> Results:
    given = {name: site.attributes[name] for name in site.attributes}
    found = native(site, site.name, given)
    return found if found is not None else _rewritten(site, _CHLO_PASSES)


def _chlo_ragged_dot(site: Site) -> Results:
    """HLO's ragged-dot; else MLIR's rewrite, a masked dot."""
    numbers = mlir().chlo.RaggedDotDimensionNumbers(site.attributes["ragged_dot_dimension_numbers"])
    dims = (
        *dot_dimensions(numbers),
        tuple(numbers.lhs_ragged_dimensions),
        tuple(numbers.rhs_group_dimensions),
    )
    found = _ragged_dot(site, find("ragged-dot"), dims)
    return found if found is not None else _rewritten(site, _CHLO_PASSES)


def _deprecated(site: Site) -> Results:
    return _rewritten(site, _DEPRECATED_PASSES)


def _rewritten(site: Site, passes: str) -> Results:
    """Call the function to which MLIR's passes rewrite the op."""
    conversion = site.conversion
    attributes = tuple((name, site.attributes[name]) for name in site.attributes)
    key = (site.name, tuple(operand.type for operand in site.op.operands), attributes)
    if site.op.regions:
        made = _rewrite(site, passes)
    else:
        made = conversion.rewritten.get(key)
        if made is None:
            made = conversion.rewritten[key] = _rewrite(site, passes)
    return call_computation(site, made, site.operands)


def _rewrite(site: Site, passes: str) -> Computation:
    try:
        module = legalized(site.op, passes)
    except Exception as error:  # The bindings raise several classes.
        raise site.unsupported(f"MLIR cannot rewrite it: {error}") from error
    function = module.body.operations[0].operation
    for view in function.regions[0].blocks[0].operations:
        if view.operation.name == site.name:
            raise site.unsupported("neither Ingot nor MLIR's passes have a rewrite for it")
    site.conversion.keep_alive.append(module)
    name = site.name.partition(".")[2]
    return site.conversion.convert_function(function, name)


CONVERTERS: dict[str, Converter] = {
    **{f"chlo.{name}": _chlo for name in _CHLO.split()},
    "chlo.ragged_dot": _chlo_ragged_dot,
    "chlo.scan": _scan,
    **{f"stablehlo.{name}": _deprecated for name in _DEPRECATED},
}
