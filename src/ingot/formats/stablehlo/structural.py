# SPDX-License-Identifier: Apache-2.0
"""Converters of custom calls and tuples."""

from __future__ import annotations

from typing import Any

from ingot.formats.stablehlo.attributes import integers, structure
from ingot.formats.stablehlo.composites import native
from ingot.formats.stablehlo.devices import ragged_all_to_all
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.formats.stablehlo.shape_assertions import shape_assertion
from ingot.formats.stablehlo.shardy import placed_text
from ingot.hlo.computation import Computation
from ingot.hlo.opdef import find
from ingot.hlo.opset.structural import CustomCallAttributes
from ingot.hlo.shape import Layout, Shape
from ingot.semantics.custom_calls import NOTES, set_config

# MLIR's api_version -> HLO's; 1 is HLO's default, which is not written.
_API_VERSIONS = {
    0: "API_VERSION_UNSPECIFIED",
    2: "API_VERSION_STATUS_RETURNING",
    3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    4: "API_VERSION_TYPED_FFI",
}
_CONFIG = ("mhlo.backend_config", "tf.backend_config", "backend_config")


def _custom_call(site: Site) -> Results:
    given = site.attributes
    target = given["call_target_name"].value
    found = native(site, target, _mhlo_attributes(given)) if target.startswith("mhlo.") else None
    if found is not None:
        return found
    if target == "ragged_all_to_all":
        return ragged_all_to_all(site)
    if target == "shape_assertion":
        return shape_assertion(site)
    version = given["api_version"].value if "api_version" in given else 1
    side_effect = "has_side_effect" in given and given["has_side_effect"].value
    attributes = CustomCallAttributes(
        target,
        "" if target in NOTES else _operand_layouts(site),
        bool(side_effect),
        _aliases(given),
        _API_VERSIONS.get(version, ""),
        _called(site),
    )
    made = site.emit(find("custom-call"), site.operands, attributes, _result_shape(site))
    config = _config(given)
    if config:
        set_config(made, config)
    placement = placed_text(site)
    if placement:
        made.extra["sharding"] = placement
    return site.elements(made)


def _mhlo_attributes(given: Any) -> dict[str, Any]:
    if "mhlo.attributes" not in given:
        return {}
    return {item.name: item.attr for item in given["mhlo.attributes"]}


def _config(given: Any) -> str:
    """Return the config as text; a dictionary stays MLIR's text `{uplo = 76 : ui8}`."""
    for name in _CONFIG:
        if name in given:
            found = given[name]
            if hasattr(found, "value_bytes"):  # any bytes: some of JAX's contain addresses
                return found.value_bytes.decode("utf-8", "surrogateescape")
            return str(found)
    return ""


def _called(site: Site) -> tuple[Computation, ...]:
    if "called_computations" not in site.attributes:
        return ()
    names = (part.value for part in site.attributes["called_computations"])
    return tuple(site.conversion.function(name) for name in names)


def _layouts(attribute: Any) -> list[Layout]:
    return [Layout(tuple(int(dim) for dim in part)) for part in attribute]


def _with_layout(shape: Shape, layout: Layout) -> Shape:
    return Shape(shape.dtype, shape.dims, layout, (), shape.bounded) if shape.is_array else shape


def _operand_layouts(site: Site) -> str:
    """Return the shapes with layouts that the call requires of its operands."""
    if "operand_layouts" not in site.attributes:
        return ""
    layouts = _layouts(site.attributes["operand_layouts"])
    shapes = [
        _with_layout(operand.shape, layout)
        for operand, layout in zip(site.operands, layouts, strict=True)
    ]
    return "{" + ", ".join(str(shape) for shape in shapes) + "}"


def _result_shape(site: Site) -> Shape:
    shape = _given_shape(site)
    if "result_layouts" not in site.attributes:
        return shape
    layouts = _layouts(site.attributes["result_layouts"])
    parts = shape.parts
    given = tuple(_with_layout(part, one) for part, one in zip(parts, layouts, strict=True))
    return Shape.tuple(given) if shape.is_tuple else given[0]


def _given_shape(site: Site) -> Shape:
    """Return the result shape: of MLIR's types, or of the operands that the call names for it."""
    if "indices_of_shape_operands" not in site.attributes:
        return site.known(site.result_shape())
    shapes: list[Shape] = []
    numbers = integers(site.attributes["indices_of_shape_operands"])
    for number, result, declared in zip(numbers, site.op.results, site.declared, strict=True):
        sizes = site.conversion.sizes_of(site.operands[number])
        if declared is None and sizes is not None:
            declared = Shape.array(site.conversion.types.element(result.type), sizes)
        shapes.append(site.known(declared))
    return shapes[0] if len(shapes) == 1 else Shape.tuple(tuple(shapes))


def _aliases(given: Any) -> str:
    """Return HLO's text of results that take over operands: `{{0}: (1, {})}`."""
    if "output_operand_aliases" not in given:
        return ""
    texts = [
        f"{{{_path(alias.output_tuple_indices)}}}: "
        f"({alias.operand_index}, {{{_path(alias.operand_tuple_indices)}}})"
        for alias in (
            structure(part, "OutputOperandAlias") for part in given["output_operand_aliases"]
        )
    ]
    return "{" + ", ".join(texts) + "}" if texts else ""


def _path(indices: Any) -> str:
    return ",".join(str(index) for index in indices)


CONVERTERS: dict[str, Converter] = {"stablehlo.custom_call": _custom_call}
