# SPDX-License-Identifier: Apache-2.0
"""HLO text around the computations: the `HloModule` line, stack frames, metadata.

XLA writes source locations once, in tables before the first computation (`FileNames`,
`StackFrames`), and instructions name a frame by number; Ingot resolves the number to the innermost
frame's file and line while reading and writes `source_file`/`source_line`, which XLA reads too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from ingot.formats.hlo_text.entry_layout import LAYOUT, read_layout
from ingot.formats.hlo_text.reader import SKIP, Reader, escape, unescape
from ingot.hlo.instruction import NO_METADATA, Metadata
from ingot.hlo.module import Alias
from ingot.semantics.device_groups import MOST_DEVICES
from ingot.support.records import mutable
from ingot.support.regex import regex
from ingot.support.text import braced, did_you_mean

# Header attributes that Ingot keeps as text and prints back.
KEPT = (
    "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "replica_count",
    "num_partitions",
    "frontend_attributes",
    "buffer_donor",
    "is_dynamic",
    "exec_time_evaluation_effort",
    "optimization_level",
    "memory_fitting_level",
    "entry_computation_api",
    "mhlo_cross_program_prefetches",
    "use_auto_spmd_partitioning",
    "origin_recovery_table",
)
_COUNTS = frozenset(("replica_count", "num_partitions"))
_READ = ("is_scheduled", "input_output_alias", LAYOUT)
_METADATA = regex(SKIP + r'\{((?>[^{}"]|"(?>[^"\\]|\\.)*+")*+)\}', re.DOTALL)
_FIELDS = ("op_type", "op_name", "source_file", "source_line", "stack_frame_id")
_PAIR = regex(r'([\w.]+)=(?:"((?>[^"\\]|\\.)*+)"|(\{[^}]*+\}|[^\s",]+))', re.DOTALL)
# What nearly all metadata looks like: no escapes, XLA's order.
_USUAL = regex(
    r'(?:op_type="([^"\\]*+)"\s*+)?+(?:op_name="([^"\\]*+)"\s*+)?+'
    r'(?:source_file="([^"\\]*+)"\s*+)?+(?:source_line=(\d{1,9})\s*+)?+'
    r"(?:stack_frame_id=(\d++))?+"
)
_TABLE = regex(SKIP + r"(FileNames|FunctionNames|FileLocations|StackFrames)\b(?!\s*[=(])")
_NUMBERED_STRING = regex(SKIP + r'(\d++)\s++"((?>[^"\\]|\\.)*+)"', re.DOTALL)
_NUMBERED_RECORD = regex(SKIP + r"(\d++)\s++\{([^{}]*+)\}")
_INDEX = regex(SKIP + r"\{([\d,\s]*+)\}")


@mutable
class Header:
    """The contents of the header: name, aliases, whether scheduled, attributes kept as text.

    `layout` is the text of the entry's signature, whose layouts may differ from those of the
    entry's own shapes. `sharing_offset` is the offset of the attribute about memory that parameters
    share with results.
    """

    name: str = ""
    layout: str = ""
    aliases: tuple[Alias, ...] = ()
    sharing_offset: int = 0
    is_scheduled: bool = False
    extra: dict[str, str] = field(default_factory=dict[str, str])


@mutable
class Frames:
    """The tables of source locations: file and line by frame number."""

    locations: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])


def read_header(reader: Reader) -> Header:
    """Take the `HloModule` line, when there is one."""
    header = Header()
    if not re.compile(SKIP + r"HloModule\b").match(reader.text, reader.position):
        return header
    reader.word("HloModule")
    header.name = reader.name("the name of the module")
    reader.accept(":")  # XLA's lexer takes a colon after any name
    readers: dict[str, Callable[[Reader, Header], None]] = {
        "is_scheduled": _read_scheduled,
        "input_output_alias": _read_aliases,
    }
    while reader.accept(","):
        at = reader.skip()
        name = reader.word("a header attribute")
        reader.expect("=", f"after '{name}'")
        if name in readers:
            readers[name](reader, header)
        elif name == LAYOUT:
            header.layout = read_layout(reader)
        elif name in KEPT:
            if name == "buffer_donor" and not header.sharing_offset:
                header.sharing_offset = reader.skip()
            header.extra[name] = _count(reader) if name in _COUNTS else reader.raw_value()
        else:
            hint = did_you_mean(name, (*KEPT, *_READ))
            reader.fail(f"unknown header attribute '{name}'", at=at, code="INGOT0103", hint=hint)
    return header


def _count(reader: Reader) -> str:
    """Take the numbers of devices."""
    at = reader.skip()
    count = reader.integer()
    if not 1 <= count <= MOST_DEVICES:
        reader.fail(f"{count} is no number of devices: 1 to {MOST_DEVICES}", at=at)
    return str(count)


def _read_scheduled(reader: Reader, header: Header) -> None:
    header.is_scheduled = reader.name("true or false") == "true"


def _read_aliases(reader: Reader, header: Header) -> None:
    """Take `{ {1}: (0, {}, may-alias), … }`."""
    header.sharing_offset = reader.skip()
    reader.expect("{")
    aliases: list[Alias] = []
    while not reader.accept("}"):
        output = _index(reader)
        reader.expect(":", "after the output of an alias")
        reader.expect("(")
        parameter = reader.integer()
        reader.expect(",")
        path = _index(reader)
        kind = reader.word("may-alias or must-alias") if reader.accept(",") else "may-alias"
        reader.expect(")")
        aliases.append(Alias(output, parameter, path, kind))
        if not reader.accept(","):
            reader.expect("}", "after the aliases")
            break
    header.aliases = tuple(aliases)


def _index(reader: Reader) -> tuple[int, ...]:
    found = reader.take(_INDEX)
    if found is None:
        reader.fail(f"expected an index like {{0}}, found {reader.found()}")
    parts = (part.strip() for part in found.group(1).split(","))
    return tuple(reader.to_integer(part, found.start(1)) for part in parts if part)


# ---- stack frames


def read_frames(reader: Reader) -> Frames:
    """Take the tables of source locations, when there are any."""
    strings: dict[str, dict[str, str]] = {}
    records: dict[str, dict[str, dict[str, str]]] = {}
    while (found := reader.take(_TABLE)) is not None:
        table = found.group(1)
        while (row := reader.take(_NUMBERED_STRING)) is not None:
            strings.setdefault(table, {})[row.group(1)] = unescape(row.group(2))
        while (row := reader.take(_NUMBERED_RECORD)) is not None:
            pairs = {name: plain for name, _, plain in _PAIR.findall(row.group(2))}
            records.setdefault(table, {})[row.group(1)] = pairs
    files, locations = strings.get("FileNames", {}), records.get("FileLocations", {})
    frames = Frames()
    for number, frame in records.get("StackFrames", {}).items():
        location = locations.get(frame.get("file_location_id", ""), {})
        file = files.get(location.get("file_name_id", ""), "")
        frames.locations[number] = (file, _line(location.get("line", "")))
    return frames


def _line(text: str) -> int:
    """Return the number of a line; 0 for one that a proto could not hold."""
    number = int(text) if text.isdecimal() and len(text) <= 10 else 0
    return number if number < 1 << 31 else 0


# ---- metadata


class MetadataReader:
    """Reads `metadata={…}`; equal texts give one object."""

    __slots__ = ("_frames", "_known", "_reader")

    def __init__(self, reader: Reader, frames: Frames) -> None:
        self._reader = reader
        self._frames = frames
        self._known: dict[str, Metadata] = {}

    def read(self) -> Metadata:
        """Take `{op_type="Add" op_name="x" source_file="f.py" source_line=3}`."""
        reader = self._reader
        at = reader.skip()
        found = reader.take(_METADATA)
        text = found.group(1) if found is not None else reader.raw_value()
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._made(text, at)
        return known

    def _made(self, text: str, at: int) -> Metadata:
        usual, more = _USUAL.fullmatch(text), ""
        if usual is not None:
            op_type, op_name, file, line, frame = usual.groups("")
        else:
            values = self._values(at)
            op_type, op_name, file, line, frame = (values.pop(name, "") for name in _FIELDS)
            more = " ".join(f"{name}={value}" for name, value in values.items())
        location = self._frames.locations.get(frame, ("", 0)) if frame else ("", 0)
        made = Metadata(op_type, op_name, file or location[0], _line(line) or location[1], more)
        return NO_METADATA if made == NO_METADATA else made

    def _values(self, at: int) -> dict[str, str]:
        """Return the fields of the metadata at offset `at`: their texts, those known unescaped."""
        reader = Reader(self._reader.text, self._reader.source_name)
        reader.position = at
        reader.expect("{", "before metadata")
        values: dict[str, str] = {}
        while not reader.accept("}"):
            name = reader.word("a field of metadata")
            reader.expect("=", f"after '{name}'")
            is_text = name in _FIELDS and reader.at('"')
            values[name] = reader.string() if is_text else reader.raw_value()
            reader.accept(",")
        return values


def write_metadata(metadata: Metadata) -> str:
    """Return `{op_type="Add" …}`, or "" when nothing is known."""
    parts = [
        f'{name}="{escape(value)}"'
        for name, value in (
            ("op_type", metadata.op_type),
            ("op_name", metadata.op_name),
            ("source_file", metadata.source_file),
        )
        if value
    ]
    if metadata.source_line:
        parts.append(f"source_line={metadata.source_line}")
    if metadata.more:
        parts.append(metadata.more)
    return "{" + " ".join(parts) + "}" if parts else ""


def write_aliases(aliases: tuple[Alias, ...]) -> str:
    """Return `{ {0}: (1, {}, may-alias) }`."""
    rows = (
        f"{braced(alias.output)}: ({alias.parameter}, {braced(alias.path)}, {alias.kind})"
        for alias in aliases
    )
    return "{ " + ", ".join(rows) + " }"
