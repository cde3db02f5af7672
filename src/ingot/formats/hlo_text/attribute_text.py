# SPDX-License-Identifier: Apache-2.0
"""Attributes in HLO text: one table row per `Codec`, a reading and a writing function.

The op table lists the attributes of an op and the codec of each; this table implements the codecs.
No function here knows an op. Attributes that XLA prints for any op and that Ingot only keeps
(sharding, backend_config, …) are in `kept_text`.

Invariant: for every codec, reading what was written gives the same value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, Field, field
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np

from ingot.formats.hlo_text.kept_text import FORMS, read_kept
from ingot.formats.hlo_text.literal_text import float_texts
from ingot.formats.hlo_text.reader import SKIP, Reader, escape
from ingot.formats.hlo_text.shape_text import ShapeReader
from ingot.formats.hlo_text.window_text import read_window, write_window
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.opdef import Codec, OpDef
from ingot.hlo.opset.collective import Groups, WrittenGroups
from ingot.hlo.shape import size_text
from ingot.semantics.device_groups import MOST_DEVICES
from ingot.support.records import record
from ingot.support.regex import regex
from ingot.support.text import braced

Naming = Callable[[str], str]
Sizes = tuple["int | Dim", ...]
_INTS = regex(SKIP + r"\{([\d,\s\-]*+)\}")
_FLOAT = regex(SKIP + r"(-?[\w.+\-]++)")
_NO_PADDING = regex(r"[ \t]*+(?:[,}\r\n]|//|/\*|\Z)")
_GROUPS_TILED = regex(SKIP + r"\[([\d,\s]++)\]\s*+<=\s*+\[([\d,\s]++)\](?:\s*+T\(([\d,\s]++)\))?+")
_GROUPS_MESH = regex(SKIP + r"mesh\[([^\]]*+)\]\s*+\{([^}]*+)\}")
_AXIS = regex(r"""['"](\w++)['"]\s*+=\s*+(\d++)""")


@record
class ParseContext:
    """The context of a reading function: the text, its shapes, and computations by name.

    `inline` takes the body of a computation that is written instead of its name, after its brace.
    `made` gets the computations that have no name in the text: those, and the ones that
    asynchronous ops in short form imply.
    """

    reader: Reader
    shapes: ShapeReader
    computation: Callable[[str, int], Computation]
    inline: Callable[[], Computation]
    made: list[Computation] = field(default_factory=list[Computation])


@record
class Text:
    """The text form of one codec; `write` gets the names of computations."""

    read: Callable[[ParseContext], Any]
    write: Callable[[Any, Naming], str]


def _braced(context: ParseContext, item: Callable[[ParseContext], Any]) -> tuple[Any, ...]:
    """Take `{item, item, …}`."""
    reader = context.reader
    reader.expect("{")
    items: list[Any] = []
    while not reader.accept("}"):
        items.append(item(context))
        if not reader.accept(","):
            reader.expect("}")
            break
    return tuple(items)


def _integer(context: ParseContext) -> int:
    return context.reader.integer()


def _size(context: ParseContext) -> int | Dim:
    return context.shapes.size()


def _read_sizes(context: ParseContext) -> Sizes:
    reader = context.reader
    found = reader.take(_INTS)
    if found is None:
        return _braced(context, _size)
    text = found.group(1)
    sizes = _sizes_of(text)
    if sizes is None or any(abs(size) >> 63 for size in sizes):
        reader.fail(f"expected integers, found '{text}'", at=found.start(1))
    return sizes


@lru_cache(maxsize=4096)
def _sizes_of(text: str) -> tuple[int, ...] | None:
    """Return the integers of a list, None when the text is none."""
    try:
        return tuple([int(part) for part in text.split(",")]) if text.strip() else ()
    except ValueError:
        return None


def _read_bool(context: ParseContext) -> bool:
    reader = context.reader
    at = reader.skip()
    word = reader.name("true or false")
    if word not in ("true", "false", "0", "1"):
        reader.fail(f"expected true or false, found '{word}'", at=at)
    return word in ("true", "1")


def _read_float(context: ParseContext) -> float:
    reader = context.reader
    found = reader.take(_FLOAT)
    try:
        return float(found.group(1) if found is not None else "")
    except ValueError:
        reader.fail("expected a number", at=reader.position)


def _read_computation(context: ParseContext) -> Computation:
    at = context.reader.skip()
    if context.reader.accept("{"):
        return context.inline()
    return context.computation(context.reader.name("the name of a computation"), at)


def _read_computations(context: ParseContext) -> tuple[Computation, ...]:
    if context.reader.at("{"):
        return _braced(context, _read_computation)
    return (_read_computation(context),)


def _read_range(context: ParseContext) -> tuple[int | Dim, int | Dim, int]:
    reader = context.reader
    reader.expect("[", "before the start of a slice")
    start = context.shapes.size()
    reader.expect(":", "after the start of a slice")
    limit = context.shapes.size()
    stride = reader.integer() if reader.accept(":") else 1
    reader.expect("]", "after a slice")
    return start, limit, stride


def _read_padding(context: ParseContext) -> tuple[tuple[int | Dim, int | Dim, int], ...]:
    reader = context.reader
    if _NO_PADDING.match(reader.text, reader.position):
        return ()  # of a scalar
    rows: list[tuple[int | Dim, int | Dim, int]] = []
    while True:
        low = context.shapes.size()
        reader.expect("_", "between low and high padding")
        high = context.shapes.size()
        rows.append((low, high, reader.integer() if reader.accept("_") else 0))
        if not reader.text.startswith("x", reader.position):
            return tuple(rows)
        reader.position += 1


def _read_groups(context: ParseContext) -> Groups:
    reader = context.reader
    at = reader.skip()
    if reader.at("mesh"):
        return _read_mesh_groups(reader, at)
    found = reader.take(_GROUPS_TILED)
    if found is None:
        return _braced(context, lambda inner: _braced(inner, _integer))
    groups, dims, order = (
        [reader.to_integer(part.strip(), at) for part in (text or "").split(",") if part.strip()]
        for text in found.groups()
    )
    count = 1
    for size in dims:
        count *= size
    if not 0 < count <= MOST_DEVICES or len(groups) != 2 or groups[0] * groups[1] != count:
        reader.fail("this device assignment does not fit", at=at)
    if order and sorted(order) != list(range(len(dims))):
        reader.fail("this device assignment has no permutation after T", at=at)
    devices = np.arange(count).reshape(dims).transpose(order or None).reshape(groups)
    return _written(devices, reader, at)


def _written(devices: np.ndarray[Any, Any], reader: Reader, at: int) -> Groups:
    """Return the rows of `devices`, from the text since `at`."""
    rows = tuple(tuple(row) for row in devices.tolist())
    return WrittenGroups.of(rows, reader.text[at : reader.position])


def _read_mesh_groups(reader: Reader, at: int) -> Groups:
    """Take `mesh['x'=2,'y'=4] {'y'}`: the devices that differ only in the named axes."""
    found = reader.take(_GROUPS_MESH)
    if found is None:
        reader.fail("this mesh is not of the form mesh['x'=2] {'x'}", at=at)
    axes = {name: reader.to_integer(size, at) for name, size in _AXIS.findall(found.group(1))}
    named = [name.strip().strip("'\"") for name in found.group(2).split(",") if name.strip()]
    is_known = set(named) <= set(axes) and len(set(named)) == len(named)
    if not is_known or not 0 < math.prod(axes.values()) <= MOST_DEVICES:
        reader.fail("this mesh does not have such axes", at=at)
    names = list(axes)
    order = [names.index(name) for name in names if name not in named]
    devices = np.arange(math.prod(axes.values())).reshape(tuple(axes.values()))
    devices = devices.transpose(*order, *(names.index(name) for name in named))
    together = math.prod(axes[name] for name in named)
    return _written(devices.reshape(-1, together), reader, at)


def _write_sizes(values: Sizes, _: Naming) -> str:
    return braced(map(size_text, values))


def _write_slice(rows: tuple[tuple[int | Dim, int | Dim, int], ...], _: Naming) -> str:
    ranges = (
        f"[{size_text(start)}:{size_text(limit)}{f':{stride}' if stride != 1 else ''}]"
        for start, limit, stride in rows
    )
    return "{" + ", ".join(ranges) + "}"


def _write_padding(rows: tuple[tuple[int | Dim, int | Dim, int], ...], _: Naming) -> str:
    interior = any(row[2] for row in rows)
    # `?n_0x?m` would read as one name: a symbolic size is always in parentheses here.
    return "x".join(
        "_".join(
            f"?({size})" if isinstance(size, Dim) else str(size) for size in row[: 2 + interior]
        )
        for row in rows
    )


def _write_groups(groups: Groups, _: Naming) -> str:
    if isinstance(groups, WrittenGroups):
        return groups.text
    return braced(braced(group) for group in groups)


def _write_computations(called: tuple[Computation, ...], naming: Naming) -> str:
    return "{" + ", ".join(naming(each.name) for each in called) + "}"


def _read_shapes(context: ParseContext) -> str:
    """Take a shape, or shapes in braces, as text."""
    reader = context.reader
    start = reader.skip()
    if reader.at("{"):
        _braced(context, lambda inner: inner.shapes.shape())
    else:
        context.shapes.shape()
    return reader.text[start : reader.position]


def _float_text(value: float) -> str:
    return float_texts(np.array([value], np.float64), "f64")[0]


def _raw(context: ParseContext) -> str:
    return context.reader.raw_value()


def _plain(value: Any, _: Naming) -> str:
    return str(value)


_KEPT_TEXT = Text(_raw, _plain)
CODECS: dict[Codec, Text] = {
    Codec.INT: Text(_integer, _plain),
    Codec.FLOAT: Text(_read_float, lambda value, _: _float_text(value)),
    Codec.BOOL: Text(_read_bool, lambda value, _: "true" if value else "false"),
    Codec.NAME: _KEPT_TEXT,
    Codec.STRING: Text(
        lambda context: context.reader.string(), lambda value, _: f'"{escape(value)}"'
    ),
    Codec.INTS: Text(_read_sizes, _write_sizes),
    Codec.COMPUTATION: Text(_read_computation, lambda called, naming: naming(called.name)),
    Codec.COMPUTATIONS: Text(_read_computations, _write_computations),
    Codec.SLICE: Text(lambda context: _braced(context, _read_range), _write_slice),
    Codec.PADDING: Text(_read_padding, _write_padding),
    Codec.NAMES: Text(lambda context: _braced(context, _raw), lambda values, _: braced(values)),
    Codec.GROUPS: Text(_read_groups, _write_groups),
    Codec.PAIRS: Text(_read_groups, _write_groups),
    Codec.WINDOW: Text(
        lambda context: read_window(context.reader), lambda window, _: write_window(window)
    ),
    Codec.DIM_LABELS: _KEPT_TEXT,
    Codec.ALIASING: _KEPT_TEXT,
    Codec.SHAPES: Text(_read_shapes, _plain),
}
_WITH_SIZES = frozenset({Codec.INTS, Codec.SLICE, Codec.PADDING})


@record
class AttributeText:
    """One attribute of one op.

    Attributes:
        name: its name in HLO text.
        field: its field in the op's attribute dataclass.
        codec: the form of its value.
        default: the value that is not written; REQUIRED when it must be there.
    """

    name: str
    field: str
    codec: Text
    default: object

    @property
    def is_required(self) -> bool:
        """Whether an instruction without this attribute is invalid."""
        return self.default is REQUIRED


REQUIRED = object()


def _text_of(row: Field[Any]) -> Text:
    """Return how a field is read; symbolic sizes only where the op table's type has them."""
    if row.name in FORMS:
        return Text(lambda context: read_kept(context.reader, row.name), _plain)
    text = CODECS[row.metadata["codec"]]
    if row.metadata["codec"] not in _WITH_SIZES or "Dim" in str(row.type):
        return text

    def read(context: ParseContext) -> Any:
        at = context.reader.position
        value = text.read(context)
        if _is_symbolic(value):
            context.reader.position = at
            at = context.reader.skip()
            context.reader.fail(f"{row.name} takes no symbolic sizes", at=at, code="INGOT0110")
        return value

    return Text(read, text.write)


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_is_symbolic(each) for each in cast("tuple[object, ...]", value))
    return isinstance(value, Dim)


@cache
def plan(definition: OpDef) -> tuple[AttributeText, ...]:
    """Return the attributes of an op that come after the operands, in text order."""
    return tuple(
        AttributeText(
            row.metadata["text"] or row.name,
            row.name,
            _text_of(row),
            REQUIRED if row.default is MISSING else row.default,
        )
        for row in definition.fields
        if row.metadata["codec"] is not Codec.INLINE
    )
