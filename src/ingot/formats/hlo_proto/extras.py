# SPDX-License-Identifier: Apache-2.0
"""Attributes of any instruction, in the proto: metadata, sharding, frontend attributes, config.

The IR keeps all but the metadata as HLO text in `Instruction.extra`.
"""

from __future__ import annotations

import re
from typing import Any

from ingot.formats.hlo_proto.sharding import read_sharding, write_sharding
from ingot.formats.hlo_proto.structures import listed
from ingot.formats.hlo_proto.wire import Message, broken
from ingot.formats.hlo_text.kept_text import PADDING_TYPES, SCHEDULES
from ingot.formats.hlo_text.reader import escape, is_value, unescape
from ingot.hlo.instruction import NO_METADATA, Instruction, Metadata
from ingot.support.regex import regex

_KEY = regex(r'[^\s={}()\[\]",]+')
_PAIR = regex(
    r'([^\s={}()\[\]",]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|(\{.*?\}(?=\s*(?:,|$))))', re.DOTALL
)


class Frames:
    """The tables of source locations of a module: file and line by frame number."""

    __slots__ = ("_locations",)

    def __init__(self, message: Message) -> None:
        files = message.get("file_names", ())
        locations = message.get("file_locations", ())
        self._locations: list[tuple[str, int]] = []
        for frame in message.get("stack_frames", ()):
            location: Message = _row(locations, frame.get("file_location_id", 0)) or {}
            file = _row(files, location.get("file_name_id", 0)) or ""
            self._locations.append((file, location.get("line", 0)))

    def location(self, number: int) -> tuple[str, int]:
        """Return the file and line of frame `number`; nothing for 0."""
        return _row(self._locations, number) or ("", 0)


def _row(rows: Any, number: int) -> Any:
    """Return row `number`, counted from 1."""
    return rows[number - 1] if 0 < number <= len(rows) else None


def read_metadata(message: Message, frames: Frames) -> Metadata:
    """Return the metadata of an OpMetadata."""
    file, line = message.get("source_file", ""), message.get("source_line", 0)
    if not file:
        file, line = frames.location(message.get("stack_frame_id", 0))
    made = Metadata(message.get("op_type", ""), message.get("op_name", ""), file, max(line, 0))
    return NO_METADATA if made == NO_METADATA else made


def write_metadata(metadata: Metadata) -> Message:
    """Return the OpMetadata."""
    return {
        "op_type": metadata.op_type,
        "op_name": metadata.op_name,
        "source_file": metadata.source_file,
        "source_line": metadata.source_line,
    }


def read_extras(message: Message) -> dict[str, str]:
    """Return the extra attributes of an instruction's message as HLO text."""
    extra: dict[str, str] = {}
    if "sharding" in message:
        extra["sharding"] = read_sharding(message["sharding"])
    attributes = read_frontend_attributes(message.get("frontend_attributes", {}))
    if attributes:
        extra["frontend_attributes"] = attributes
    replication = message.get("parameter_replication", {}).get("replicated_at_leaf_buffers")
    if replication:
        flags = ",".join("true" if flag else "false" for flag in replication)
        extra["parameter_replication"] = "{" + flags + "}"
    if message.get("padding_type"):
        extra["padding_type"] = listed(PADDING_TYPES, message["padding_type"], "padding type")
    if message.get("custom_call_schedule"):
        extra["schedule"] = listed(SCHEDULES, message["custom_call_schedule"], "schedule")
    config = message.get("backend_config", b"").decode("utf-8", "surrogateescape")
    if config:
        extra["backend_config"] = config if _is_dictionary(config) else f'"{escape(config)}"'
    return extra


def _is_dictionary(config: str) -> bool:
    """Whether HLO text has the config without quotes: a value in braces that match."""
    return config.startswith("{") and is_value(config)


def write_extras(instruction: Instruction) -> Message:
    """Return the fields of the attributes that the instruction keeps as HLO text."""
    message: Message = {}
    extra = instruction.extra
    if "sharding" in extra:
        message["sharding"] = write_sharding(extra["sharding"])
    if "frontend_attributes" in extra:
        message["frontend_attributes"] = write_frontend_attributes(extra["frontend_attributes"])
    if "parameter_replication" in extra:
        words = extra["parameter_replication"].strip("{} ").split(",")
        flags = [word.strip() == "true" for word in words]
        message["parameter_replication"] = {"replicated_at_leaf_buffers": flags}
    if "padding_type" in extra:
        message["padding_type"] = PADDING_TYPES.index(extra["padding_type"])
    if "schedule" in extra:
        message["custom_call_schedule"] = SCHEDULES.index(extra["schedule"])
    if "backend_config" in extra:
        text = extra["backend_config"]
        plain = unescape(text[1:-1]) if text.startswith('"') else text
        message["backend_config"] = plain.encode("utf-8", "surrogateescape")
    return message


def read_frontend_attributes(message: Message) -> str:
    """Return HLO's text of frontend attributes, empty when there are none."""
    pairs = sorted((row.get("key", ""), row.get("value", "")) for row in message.get("map", ()))
    if any(_KEY.fullmatch(key) is None for key, _ in pairs):
        raise broken(f"frontend attributes have the keys {[key for key, _ in pairs]}")
    texts = [
        f"{key}={value}" if _is_dictionary(value) else f'{key}="{escape(value)}"'
        for key, value in pairs
    ]
    return "{" + ",".join(texts) + "}" if texts else ""


def write_frontend_attributes(text: str) -> Message:
    """Return the FrontendAttributes of HLO's text."""
    inner = text.strip()[1:-1]
    rows = [
        {"key": key, "value": plain or unescape(quoted)}
        for key, quoted, plain in _PAIR.findall(inner)
    ]
    return {"map": rows}
