# SPDX-License-Identifier: Apache-2.0
"""Structured attributes of the proto: windows, paddings, dimension labels, groups, both ways.

Each pair of functions reads a field of an instruction's message and writes it back; where the op
table keeps an attribute as XLA's text, the text is built and parsed here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ingot.formats.hlo_proto.shapes import read_shape, write_shape
from ingot.formats.hlo_proto.sharding import read_sharding, write_sharding
from ingot.formats.hlo_proto.wire import Message, broken
from ingot.formats.hlo_text.reader import Reader
from ingot.formats.hlo_text.shape_text import ShapeReader
from ingot.hlo.opset.contraction import PRECISIONS, ConvolutionLabels
from ingot.hlo.shape import Shape
from ingot.hlo.window import Window, WindowDimension
from ingot.semantics.device_groups import MOST_DEVICES
from ingot.support.regex import regex

Groups = tuple[tuple[int, ...], ...]
_ALIAS = regex(r"\{([\d, ]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d, ]*)\}")
_ACCURACY = regex(r"(\w+)=([\w.+\-]+)")
_MODES = {"default": 0, "highest": 1}


def listed(texts: tuple[str, ...], number: int, what: str) -> str:
    """Return the text of an enumeration's number; ParseError for an unknown number."""
    if not 0 <= number < len(texts):
        raise broken(f"there is no {what} {number}")
    return texts[number]


# ---- slices, paddings, windows


def read_slice(rows: list[Message]) -> tuple[tuple[int, int, int], ...]:
    """Return (start, limit, stride) per dimension."""
    return tuple((r.get("start", 0), r.get("limit", 0), r.get("stride", 0) or 1) for r in rows)


def write_slice(bounds: tuple[tuple[int, int, int], ...]) -> list[Message]:
    """Return the SliceDimensions."""
    return [{"start": start, "limit": limit, "stride": stride} for start, limit, stride in bounds]


_PADDING = ("edge_padding_low", "edge_padding_high", "interior_padding")


def read_padding(message: Message) -> tuple[tuple[int, ...], ...]:
    """Return (low, high, interior) per dimension."""
    rows = message.get("dimensions", ())
    return tuple(tuple(row.get(name, 0) for name in _PADDING) for row in rows)


def write_padding(padding: tuple[tuple[int, int, int], ...]) -> Message:
    """Return the PaddingConfig."""
    return {"dimensions": [dict(zip(_PADDING, row, strict=True)) for row in padding]}


def read_window(message: Message) -> Window:
    """Return the window."""
    return tuple(
        WindowDimension(
            row.get("size", 0),
            row.get("stride", 0),
            row.get("padding_low", 0),
            row.get("padding_high", 0),
            row.get("base_dilation", 0) or 1,
            row.get("window_dilation", 0) or 1,
            row.get("window_reversal", False),
        )
        for row in message.get("dimensions", ())
    )


def write_window(window: Window) -> Message:
    """Return the Window."""
    rows = [
        {
            "size": one.size,
            "stride": one.stride,
            "padding_low": one.low,
            "padding_high": one.high,
            "base_dilation": one.base_dilation,
            "window_dilation": one.window_dilation,
            "window_reversal": one.reversal,
        }
        for one in window
    ]
    return {"dimensions": rows}


# ---- convolution

# Side of the labels: letters, proto's prefix, proto's names of the letters' dimensions.
_SIDES = (
    ("lhs", "bf", "input", ("input_batch_dimension", "input_feature_dimension")),
    ("rhs", "io", "kernel", ("kernel_input_feature_dimension", "kernel_output_feature_dimension")),
    ("output", "bf", "output", ("output_batch_dimension", "output_feature_dimension")),
)


def read_labels(message: Message) -> str:
    """Return XLA's text of dimension labels, `b01f_01io->b01f`."""
    texts: list[str] = []
    for _, letters, prefix, names in _SIDES:
        spatial = message.get(f"{prefix}_spatial_dimensions", ())
        text = [""] * (len(spatial) + 2)
        dimensions = [*(message.get(name, 0) for name in names), *spatial]
        if sorted(dimensions) != list(range(len(dimensions))):
            raise broken(f"the dimensions {dimensions} of a convolution's {prefix} are no order")
        for letter, dim in zip([*letters, *map(str, range(len(spatial)))], dimensions, strict=True):
            text[dim] = letter
        texts.append("".join(text))
    return "{}_{}->{}".format(*texts)


def write_labels(text: str) -> Message:
    """Return the ConvolutionDimensionNumbers."""
    labels, message = ConvolutionLabels.parse(text), Message()
    for side, letters, prefix, names in _SIDES:
        first, *spatial, second = labels.dimensions(getattr(labels, side), letters)
        message[names[0]], message[names[1]] = first, second
        message[f"{prefix}_spatial_dimensions"] = spatial
    return message


# ---- precision


def read_precision(message: Message) -> tuple[str, ...]:
    """Return the operands' precisions, nothing when all are the default."""
    found = message.get("precision_config", {}).get("operand_precision", ())
    if not any(found):
        return ()
    numbers: list[int] = list(found)
    return tuple(listed(PRECISIONS, number, "operand precision") for number in numbers)


def write_precision(precisions: tuple[str, ...]) -> Message:
    """Return the PrecisionConfig in its field; the algorithm is written after it."""
    numbers = [PRECISIONS.index(name) for name in precisions] or [0, 0]
    return {"precision_config": {"operand_precision": numbers}}


def read_accuracy(message: Message) -> str:
    """Return the text of a result accuracy, empty for the default."""
    tolerance = message.get("tolerance")
    if tolerance is not None:
        inner = ", ".join(f"{name}={tolerance.get(name, 0)}" for name in ("atol", "rtol", "ulps"))
        return f"{{tolerance={{{inner}}}}}"
    return "{mode=highest}" if message.get("mode", 0) == _MODES["highest"] else ""


def write_accuracy(text: str) -> Message:
    """Return the ResultAccuracy."""
    found = dict(_ACCURACY.findall(text))
    if "mode" in found:
        return {"mode": _MODES.get(found["mode"].lower(), 0)}
    numbers = {name: float(found[name]) for name in ("atol", "rtol") if name in found}
    return {"tolerance": numbers | {"ulps": int(found.get("ulps", 0))}}


# ---- groups of devices


def read_groups(message: Message) -> Groups:
    """Return the replica groups: listed, as a rearranged range, or in the old field."""
    listed = message.get("collective_device_list", {})
    iota = listed.get("iota_replica_group_list") or message.get("iota_collective_device_list")
    if iota is not None:
        return _iota_groups(iota)
    rows = listed.get("replica_groups") or message.get("replica_groups", ())
    return tuple(tuple(row.get("replica_ids", ())) for row in rows)


def _iota_groups(message: Message) -> Groups:
    dims: list[int] = message.get("iota_reshape_dims", [])
    order: list[int] = message.get("iota_transpose_perm", []) or list(range(len(dims)))
    shape = (message.get("num_replica_groups", 0), message.get("num_devices_per_group", 0))
    count = math.prod(dims)
    if (
        min((*dims, *shape)) < 1
        or count > MOST_DEVICES
        or shape[0] * shape[1] != count
        or sorted(order) != list(range(len(dims)))
    ):
        raise broken(f"{list(shape)} groups of the devices {dims} in the order {order}")
    devices = np.arange(count).reshape(dims).transpose(order)
    rows: Any = devices.reshape(shape).tolist()
    return tuple(tuple(row) for row in rows)


def write_groups(groups: Groups | None) -> Message:
    """Return the groups in their field."""
    rows = [{"replica_ids": list(group)} for group in groups or ()]
    return {"collective_device_list": {"replica_groups": rows}} if rows else {}


def read_pairs(rows: list[Message]) -> Groups:
    """Return (source, target) pairs."""
    return tuple((row.get("source", 0), row.get("target", 0)) for row in rows)


def write_pairs(pairs: Groups) -> list[Message]:
    """Return the SourceTargets."""
    return [{"source": source, "target": target} for source, target in pairs]


# ---- domains

_DOMAIN = regex(r'\{kind="sharding",\s*entry=(\{.*\}),\s*exit=(\{.*\})\}')


def read_domain(message: Message) -> str:
    """Return the text of a domain; the text's entry is the proto's exit, as XLA has it."""
    entry, end = (
        read_sharding(message.get(f"domain_{name}_sharding", {})) for name in ("exit", "entry")
    )
    return f'{{kind="sharding", entry={entry}, exit={end}}}'


def write_domain(text: str) -> Message:
    """Return a domain's shardings in their fields."""
    found = _DOMAIN.fullmatch(text)
    if found is None:
        return {}
    return {
        "domain_exit_sharding": write_sharding(found.group(1)),
        "domain_entry_sharding": write_sharding(found.group(2)),
    }


# ---- custom calls


def read_aliasing(rows: list[Message]) -> str:
    """Return HLO's text of results that take over operands."""
    for row in rows:
        paths = (*row.get("output_shape_index", ()), *row.get("operand_shape_index", ()))
        if min((row.get("operand_index", 0), *paths)) < 0:
            raise broken("an alias of a custom call has a negative index")
    texts = [
        f"{{{_path(row, 'output_shape_index')}}}: "
        f"({row.get('operand_index', 0)}, {{{_path(row, 'operand_shape_index')}}})"
        for row in rows
    ]
    return "{" + ", ".join(texts) + "}" if texts else ""


def _path(row: Message, name: str) -> str:
    return ", ".join(str(number) for number in row.get(name, ()))


def path_numbers(text: str) -> list[int]:
    """Return the numbers of an index path like `0, 1`."""
    return [int(part) for part in text.split(",") if part.strip()]


def write_aliasing(text: str) -> list[Message]:
    """Return the OutputOperandAliasings."""
    return [
        {
            "output_shape_index": path_numbers(output),
            "operand_index": int(number),
            "operand_shape_index": path_numbers(inner),
        }
        for output, number, inner in _ALIAS.findall(text)
    ]


def read_layouts(message: Message) -> str:
    """Return the text of the operand shapes, with layouts, that a call requires."""
    if not message.get("constrain_layout"):
        return ""
    shapes = message.get("operand_shapes_with_layout", ())
    return "{" + ", ".join(str(read_shape(shape)) for shape in shapes) + "}"


def write_layouts(text: str) -> Message:
    """Return the operand shapes in their fields."""
    if not text:
        return {}
    reader = Reader(text, "<operand_layout_constraints>")
    shapes: list[Shape] = []
    reader.expect("{")
    while not reader.accept("}"):
        shapes.append(ShapeReader(reader).shape())
        reader.accept(",")
    return {
        "constrain_layout": True,
        "operand_shapes_with_layout": [write_shape(shape) for shape in shapes],
    }


def read_shape_text(message: Message) -> str:
    """Return the text of a shape."""
    return str(read_shape(message))


def write_shape_text(text: str) -> Any:
    """Return the ShapeProto of a shape's text."""
    return write_shape(ShapeReader(Reader(text, "<shape>")).shape())
