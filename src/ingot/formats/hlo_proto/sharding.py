# SPDX-License-Identifier: Apache-2.0
"""Shardings: XLA's text `{devices=[2,1]<=[2]}` to an OpSharding message and back.

The IR keeps shardings as text; the proto has them as messages.

Source: xla/hlo/ir/hlo_sharding.cc, xla/hlo/parser/hlo_parser.cc (ParseSharding).

Example:
    >>> read_sharding(write_sharding("{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"))
    '{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}'
"""

from __future__ import annotations

import re

from ingot.formats.hlo_proto.wire import Message, broken, encode
from ingot.support.diagnostics import ParseError
from ingot.support.regex import regex

_REPLICATED, _MAXIMAL, _TUPLE, _OTHER, _MANUAL, _UNKNOWN, _UNREDUCED = range(7)
_KINDS = {
    "replicated": _REPLICATED, "manual": _MANUAL, "unknown": _UNKNOWN, "unreduced": _UNREDUCED,
}  # fmt: skip
_WORDS = {number: word for word, number in _KINDS.items()}
_TILES = regex(
    r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
    r"(?:\s+(last_tile_dim_replicate)|\s+last_tile_dims=\{([^}]*)\})?"
)
_DEVICE = regex(r"maximal device=(\d+)")


def _numbers(text: str | None) -> list[int]:
    return [int(part) for part in (text or "").split(",") if part.strip()]


def write_sharding(text: str) -> Message:
    """Return the OpSharding of XLA's text; ParseError when it is none."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise _refused(text)
    inner = inner[1:-1].strip()
    if inner.startswith("{") or not inner:
        return {"type": _TUPLE, "tuple_shardings": [write_sharding(t) for t in _split(inner)]}
    inner = re.sub(r"\s*metadata=\{.*\}", "", inner)
    if inner in _KINDS:
        return {"type": _KINDS[inner]}
    device = _DEVICE.fullmatch(inner)
    if device is not None:
        return {
            "type": _MAXIMAL,
            "tile_assignment_dimensions": [1],
            "tile_assignment_devices": [int(device.group(1))],
        }
    tiles = _TILES.fullmatch(inner)
    if tiles is None:
        raise _refused(text)
    return _tiled(tiles)


def sharding_bytes(text: str) -> bytes:
    """Return the serialized OpSharding (xla/xla_data.proto) of a sharding in HLO text."""
    return encode(write_sharding(text), "OpSharding")


def _refused(text: str) -> ParseError:
    return ParseError(f"this is no sharding: '{text}'", code="INGOT0123")


def _split(text: str) -> list[str]:
    """Return the parts of a tuple's text, at the commas outside of braces."""
    parts: list[str] = []
    depth = start = 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text else []


def _tiled(tiles: re.Match[str]) -> Message:
    dims, iota, order, devices, replicate, subgroups = tiles.groups()
    message: Message = {"type": _OTHER, "tile_assignment_dimensions": _numbers(dims)}
    if iota is not None:
        shape = _numbers(iota)
        message["iota_reshape_dims"] = shape
        message["iota_transpose_perm"] = _numbers(order) or list(range(len(shape)))
    else:
        message["tile_assignment_devices"] = _numbers(devices)
    if replicate:
        message["replicate_on_last_tile_dim"] = True
    if subgroups:
        message["last_tile_dims"] = [_KINDS[word.strip()] for word in subgroups.split(",")]
    return message


def read_sharding(message: Message) -> str:
    """Return XLA's text of an OpSharding.

    Raises:
        ParseError: it has no device, or a kind that there is not (INGOT0122).
    """
    kind = message.get("type", _REPLICATED)
    if kind == _TUPLE:
        return "{" + ", ".join(map(read_sharding, message.get("tuple_shardings", ()))) + "}"
    if kind in _WORDS:
        return "{" + _WORDS[kind] + "}"
    if kind == _MAXIMAL:
        devices = message.get("tile_assignment_devices") or [0]
        return "{maximal device=" + str(devices[0]) + "}"
    if kind != _OTHER:
        raise broken(f"there is no sharding of the kind {kind}")
    text = "devices=[" + _join(message.get("tile_assignment_dimensions", ())) + "]"
    shape = message.get("iota_reshape_dims", ())
    if shape:
        text += "<=[" + _join(shape) + "]"
        order = list(message.get("iota_transpose_perm", ()))
        if order and order != list(range(len(shape))):
            text += "T(" + _join(order) + ")"
    else:
        text += _join(message.get("tile_assignment_devices", ()))
    if message.get("replicate_on_last_tile_dim"):
        text += " last_tile_dim_replicate"
    elif message.get("last_tile_dims"):
        kinds: list[int] = message["last_tile_dims"]
        if not set(kinds) <= set(_WORDS):
            raise broken(f"there are no tile dimensions of the kinds {kinds}")
        text += " last_tile_dims={" + ", ".join(_WORDS[number] for number in kinds) + "}"
    return "{" + text + "}"


def _join(numbers: object) -> str:
    return ",".join(map(str, numbers))  # pyright: ignore
