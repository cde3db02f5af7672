# SPDX-License-Identifier: Apache-2.0
"""Structural ops: parameters, constants, tuples, fusions, tokens, custom calls.

Source: XLA operation semantics; xla/hlo/ir/hlo_instructions.h.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import TOKEN
from ingot.hlo.interfaces import RegionKind
from ingot.hlo.literal import Literal
from ingot.hlo.opdef import Codec, OpView, Trait, attribute, define, require
from ingot.hlo.opset.library_calls import require_known
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window
from ingot.support.records import record
from ingot.support.regex import regex

FAMILY = "structural"
_SHAPE = Trait.NEEDS_SHAPE
_ALIAS = regex(r"\{([\d, ]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d, ]*)\}\s*\)")
FUSION_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")
# In the order of XLA's numbers in the proto.
API_VERSIONS = (
    "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI",
)  # fmt: skip
Path = tuple[int, ...]


@record
class ParameterAttributes:
    """Attributes of `parameter`."""

    number: int = attribute(Codec.INLINE)


@record
class ConstantAttributes:
    """Attributes of `constant`."""

    literal: Literal = attribute(Codec.INLINE)


@record
class IndexAttributes:
    """Attributes of `get-tuple-element`."""

    index: int = attribute(Codec.INT)


@record
class FusionAttributes:
    """Attributes of `fusion`: kind kLoop kInput kOutput kCustom, and the fused computation."""

    kind: str = attribute(Codec.NAME, names=FUSION_KINDS)
    calls: Computation = attribute(Codec.COMPUTATION)


@record
class CustomCallAttributes:
    """Attributes of `custom-call`."""

    custom_call_target: str = attribute(Codec.STRING)
    operand_layout_constraints: str = attribute(Codec.SHAPES, "")
    custom_call_has_side_effect: bool = attribute(Codec.BOOL, False)
    output_to_operand_aliasing: str = attribute(Codec.ALIASING, "")
    api_version: str = attribute(Codec.NAME, "", names=API_VERSIONS)
    called_computations: tuple[Computation, ...] = attribute(Codec.COMPUTATIONS, ())
    window: Window = attribute(Codec.WINDOW, ())
    dim_labels: str = attribute(Codec.DIM_LABELS, "")
    feature_group_count: int = attribute(Codec.INT, 1)
    batch_group_count: int = attribute(Codec.INT, 1)

    def aliases(self) -> list[tuple[Path, int, Path]]:
        """Return (path in the result, operand number, path in it) of arrays that share memory."""
        found = _ALIAS.findall(self.output_to_operand_aliasing)
        return [(_path(output), int(number), _path(inner)) for output, number, inner in found]


def _path(text: str) -> Path:
    return tuple(int(part) for part in text.split(",") if part.strip())


@record
class DomainAttributes:
    """Attributes of `domain`: kept as text."""

    domain: str = attribute(Codec.NAME)


def _given(view: OpView) -> Shape:
    return view.given()


def _infer_custom_call(view: OpView) -> Shape:
    given = view.given()
    attributes = view.as_(CustomCallAttributes)
    require_known(view, given)
    results = dict(given.leaves())
    for output, number, inner in attributes.aliases():
        operands = dict(view.operands[number].leaves()) if number < len(view.operands) else {}
        result, operand = results.get(output), operands.get(inner)
        # Their dimensions may differ: layouts are made explicit by transposing them.
        require(
            result is not None and operand is not None and result.bytes == operand.bytes,
            "custom_call_i6",
            f"result {list(output)} cannot share the memory of operand {number} {list(inner)}",
        )
    return given


def _infer_constant(view: OpView) -> Shape:
    literal = view.attributes.literal.shape
    if view.declared is not None and view.declared.compatible(literal):
        return view.declared
    return literal


def _infer_tuple(view: OpView) -> Shape:
    return Shape.tuple(view.operands)


def _infer_element(view: OpView) -> Shape:
    (operand,) = view.operands
    given = view.as_(IndexAttributes)
    index = given.index
    if not operand.is_tuple:
        require(False, "get_tuple_element_i1", f"get-tuple-element of {operand}")
    count = len(operand.elements)
    if not 0 <= index < count:
        require(False, "get_tuple_element_c1", f"index {index} of {count} elements")
    return operand.elements[index]


def _infer_fusion(view: OpView) -> Shape:
    fused: Computation = view.attributes.calls
    given = tuple([p.shape for p in fused.parameters])
    if given == view.operands:
        return fused.root.shape
    require(len(given) == len(view.operands), "fusion_c1", "fusion operands do not fit")
    for have, want in zip(view.operands, given, strict=True):
        require(have.compatible(want), "fusion_c1", f"fusion operand {have}, parameter {want}")
    return fused.root.shape


def _infer_token(view: OpView) -> Shape:
    for operand in view.operands:
        require(operand.dtype is TOKEN, "after_all_i1", f"after-all joins tokens, not {operand}")
    return Shape.token()


def _infer_dependency(view: OpView) -> Shape:
    value, token = view.operands
    require(token.dtype is TOKEN, "add_dependency_i2", f"add-dependency on {token}, not a token")
    return value


def _infer_identity(view: OpView) -> Shape:
    return view.operands[0]


define("parameter", family=FAMILY, arity=0, infer=_given, attributes=ParameterAttributes,
       results="o1",
       traits={_SHAPE, Trait.LEAF}, doc="an argument of the computation")  # fmt: skip
define("constant", family=FAMILY, arity=0, infer=_infer_constant, attributes=ConstantAttributes,
       results="c1", traits={Trait.LEAF, Trait.CONSTANT_LIKE},
       doc="a literal value")  # fmt: skip
define("tuple", family=FAMILY, arity=(0, None), infer=_infer_tuple, takes_arrays=False,
       traits={Trait.TUPLE},
       doc="several values as one")  # fmt: skip
define("get-tuple-element", family=FAMILY, arity=1, infer=_infer_element,
       takes_arrays=False, results="c2", attributes=IndexAttributes, traits={Trait.TUPLE},
       doc="one element of a tuple")  # fmt: skip
define("fusion", family=FAMILY, arity=(0, None), infer=_infer_fusion, attributes=FusionAttributes,
       takes_arrays=False, results="c2", regions=RegionKind.FUSION,
       doc="a computation that runs as one kernel")  # fmt: skip
define("custom-call", family=FAMILY, arity=(0, None), infer=_infer_custom_call,
       attributes=CustomCallAttributes, traits={_SHAPE, Trait.SIDE_EFFECT}, takes_arrays=False,
       regions=RegionKind.FOREIGN,
       doc="a call of code registered under a name")  # fmt: skip
define("opt-barrier", family=FAMILY, arity=1, infer=_infer_identity, takes_arrays=False,
       traits={Trait.VIEW, Trait.BARRIER}, spec="optimization_barrier",
       doc="its operand; nothing moves across")  # fmt: skip
define("domain", family=FAMILY, arity=1, infer=_infer_identity, attributes=DomainAttributes,
       takes_arrays=False, traits={Trait.VIEW, Trait.BARRIER},
       doc="its operand, where one region of placement ends")  # fmt: skip
define("after-all", family=FAMILY, arity=(0, None), infer=_infer_token, takes_arrays=False,
       results="o1", traits={Trait.SIDE_EFFECT, Trait.BARRIER}, doc="joins tokens")  # fmt: skip
define("add-dependency", family=FAMILY, arity=2, infer=_infer_dependency, takes_arrays=False,
       traits={Trait.VIEW, Trait.BARRIER},
       doc="its first operand, after its second")  # fmt: skip
