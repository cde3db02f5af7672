# SPDX-License-Identifier: Apache-2.0
"""Converters derived from the op table: same op and attributes, possibly with other names.

A StableHLO op without attributes whose name is an opcode (`_` for `-`) needs no row here. `NAMED`
lists the ops with other names of attributes, or of themselves, in HLO. A field of the op table that
holds a computation takes the op's regions, in order.

An opcode that the op table does not have (yet) gives no converter: the op is then refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any

from ingot.formats.stablehlo.attributes import READERS, structure
from ingot.formats.stablehlo.scope import Converter, Results, Site
from ingot.hlo.opdef import Codec, NoAttributes, OpDef
from ingot.hlo.opset.elementwise import AccuracyAttributes

# StableHLO op: (opcode, {field of the op table: MLIR attribute}).
NAMED: dict[str, tuple[str, dict[str, str]]] = {
    "transpose": ("transpose", {"dimensions": "permutation"}),
    "reverse": ("reverse", {}),
    "concatenate": ("concatenate", {"dimensions": "dimension"}),
    "iota": ("iota", {}),
    "dynamic_slice": ("dynamic-slice", {"dynamic_slice_sizes": "slice_sizes"}),
    "reduce_precision": ("reduce-precision", {}),
    "get_dimension_size": ("get-dimension-size", {"dimensions": "dimension"}),
    "set_dimension_size": ("set-dimension-size", {"dimensions": "dimension"}),
    "get_tuple_element": ("get-tuple-element", {}),
    "reduce": ("reduce", {}),
    "map": ("map", {}),
    "cholesky": ("cholesky", {}),
    "triangular_solve": ("triangular-solve", {}),
    "fft": ("fft", {}),
    "batch_norm_inference": ("batch-norm-inference", {}),
    "batch_norm_training": ("batch-norm-training", {}),
    "batch_norm_grad": ("batch-norm-grad", {}),
    "create_token": ("after-all", {}),
}

Read = Callable[[Site], Any]


def converters(table: Mapping[str, OpDef]) -> dict[str, Converter]:
    """Return the converters derived from the op table, by full MLIR name."""
    made: dict[str, Converter] = {}
    for opcode, definition in table.items():
        if definition.attributes is NoAttributes or definition.attributes is AccuracyAttributes:
            made["stablehlo." + opcode.replace("-", "_")] = _plain(definition)
    for name, (opcode, sources) in NAMED.items():
        if opcode in table:
            made["stablehlo." + name] = from_table(table[opcode], sources)
    return made


def _plain(definition: OpDef) -> Converter:
    """Return the converter of an op without attributes that change its value."""
    attributes = definition.attributes()

    def convert(site: Site) -> Results:
        return site.add(definition, attributes)

    def convert_accurate(site: Site) -> Results:
        return site.add(definition, _accuracy(site, attributes))

    return convert_accurate if definition.attributes is AccuracyAttributes else convert


def _accuracy(site: Site, default: Any) -> Any:
    if "result_accuracy" not in site.attributes:
        return default
    given = structure(site.attributes["result_accuracy"], "ResultAccuracyAttr")
    if given.mode == "DEFAULT":
        return default
    if given.mode == "TOLERANCE":
        text = f"{{tolerance={{atol={given.atol}, rtol={given.rtol}, ulps={given.ulps}}}}}"
    else:
        text = f"{{mode={given.mode.lower()}}}"
    return AccuracyAttributes(text)


def from_table(definition: OpDef, sources: Mapping[str, str]) -> Converter:
    """Return the converter of an op whose attribute fields are read by their codecs."""
    fields: list[tuple[str, Read]] = []
    regions = 0
    for row in definition.fields:
        codec = row.metadata["codec"]
        if codec is Codec.COMPUTATION:
            fields.append((row.name, _region(regions)))
            regions += 1
        elif codec in READERS:
            default = row.default
            fields.append((row.name, _field(sources.get(row.name, row.name), codec, default)))

    def convert(site: Site) -> Results:
        values = {name: read(site) for name, read in fields}
        attributes = definition.attributes(**values)
        made = site.emit(definition, site.operands, attributes, site.result_shape())
        return site.elements(made)

    return convert


def _region(number: int) -> Read:
    return lambda site: site.conversion.reducer(site, site.op.regions[number])


def _field(name: str, codec: Codec, default: Any) -> Read:
    read = READERS[codec]

    def value(site: Site) -> Any:
        if name in site.attributes:
            return read(site.attributes[name])
        if default is MISSING:
            raise site.unsupported(f"attribute '{name}' is missing")
        return default

    return value
