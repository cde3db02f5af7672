# SPDX-License-Identifier: Apache-2.0
"""Damaged sessions of `ingot serve`: one answer for each frame, and INGOT0522 for hosts' mistakes.

A case is the bytes that a host sends: requests that were right, damaged in their bytes, in the
structure of their headers or in the types of their fields, and cut off. Both forms of frames are
sent. What the session answers must itself be sound, and a right request after all must succeed.
"""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import numpy as np
from tests.fuzz.mutation import ODD_NUMBERS, ODD_WORDS, mutated_bytes
from tests.fuzz.target import Target

from ingot.support.diagnostics import ExecutionError, ResourceError
from ingot.tools.serving.framing import ENCODINGS, Encoding, Message, line, packet, read_header
from ingot.tools.serving.session import Session, failure

PROGRAMS = (
    "HloModule a ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }",
    "HloModule b ENTRY e { x = f32[?n] parameter(0) y = pred[] parameter(1) ROOT t = (f32[?n], "
    "pred[]) tuple(x, y) }",
    "HloModule c, replica_count=2 ENTRY e { ROOT r = u32[] replica-id() }",
)
_ROW = {"dtype": "f32", "shape": [2]}
_FLAG = {"dtype": "pred", "shape": []}
_DATA = np.array([1, 2], np.float32).tobytes()
_LIMIT = 1 << 20
_DEEPEST = 2000
_INTERNAL = "INGOT09"
Frame = tuple[dict[str, Any], bytes]


def _session() -> list[Frame]:
    """Return requests that all succeed."""
    run = {"op": "execute", "executable": 1}
    return [
        ({"op": "compile", "program": PROGRAMS[0], "id": 1}, b""),
        ({"op": "put", "arrays": [_ROW, _FLAG], "id": "put"}, _DATA + b"\1"),
        ({**run, "arguments": [_ROW]}, _DATA),
        ({**run, "arguments": [{"value": 2}], "keep": True}, b""),
        ({"op": "compile", "format": "hlo_text"}, PROGRAMS[1].encode()),
        ({"op": "execute", "executable": 5, "arguments": [{"value": 4}, _FLAG],
          "donate": [4]}, b"\0"),
        ({"op": "get", "values": [2, 3], "id": [1, None]}, b""),
        ({"op": "compile", "program": PROGRAMS[2], "partition": False}, b""),
        ({"op": "execute", "executable": 6}, b""),
        ({"op": "free", "values": [2], "executables": [1]}, b""),
        ({"op": "devices", "timeout": 2.5}, b""),
    ]  # fmt: skip


def generate(choose: random.Random) -> bytes:
    """Return a damaged session; its first byte says in which form."""
    frames = _session()
    as_lines = choose.random() < 0.3
    encode = line if as_lines else packet
    out = bytearray()
    for number, (header, payload) in enumerate(frames):
        if choose.random() < 0.1:
            continue
        for _ in range(choose.choice((0, 0, 0, 1, 1, 2))):
            header = _damaged(choose, header)
        if choose.random() < 0.1:
            payload = mutated_bytes(choose, payload)
        data = encode(Message(header if isinstance(header, dict) else {"op": header}, payload))
        if choose.random() < 0.1:
            data = _broken(choose, data, as_lines=as_lines)
        out += data
        if choose.random() < 0.05:
            out += encode(Message(*choose.choice(frames[: number + 1])))
    if choose.random() < 0.1:
        del out[choose.randrange(len(out) or 1) :]
    return (b"L" if as_lines else b"P") + bytes(out)


def _damaged(choose: random.Random, value: Any) -> Any:
    """Return a value of JSON with something in it changed."""
    if isinstance(value, dict) and value and choose.random() < 0.85:
        made: dict[Any, Any] = dict(value)
        key = choose.choice([*made])
        match choose.randrange(6):
            case 0:
                del made[key]
            case 1:
                made[str(choose.choice(ODD_WORDS))] = made[key]
            case 2:
                made[key] = made[choose.choice([*made])]
            case _:
                made[key] = _damaged(choose, made[key])
        return made
    if isinstance(value, list) and value and choose.random() < 0.8:
        rows: list[Any] = list(value)
        place = choose.randrange(len(rows))
        match choose.randrange(4):
            case 0:
                del rows[place]
            case 1:
                rows.insert(place, rows[choose.randrange(len(rows))])
            case _:
                rows[place] = _damaged(choose, rows[place])
        return rows
    return _odd(choose, value)


def _odd(choose: random.Random, value: Any) -> Any:
    """Return another value, of any type."""
    depth = choose.choice((1, 2, 31, 33, 300))
    nested: Any = value
    for _ in range(depth):
        nested = [nested] if choose.random() < 0.5 else {"a": nested}
    return choose.choice(
        (
            None, True, False, 0, 1, 2, 3, 4, 5, 6, 1.0, 1.5, -0.0, 1e308, [], {}, "", "f32", "s4",
            choose.choice(ODD_NUMBERS), choose.choice(ODD_WORDS), "x" * 100, "x" * 10_000,
            [choose.choice(ODD_NUMBERS) for _ in range(choose.choice((1, 2, 65)))], nested,
            str(value), [value], {"value": value}, "compile", "execute", "cancel", "shutdown",
        )
    )  # fmt: skip


def _broken(choose: random.Random, data: bytes, *, as_lines: bool) -> bytes:
    """Return a frame that is none any more."""
    if as_lines or choose.random() < 0.7:
        return mutated_bytes(choose, data)
    if choose.random() < 0.5:
        size = choose.choice((0, 1, len(data), _LIMIT + 1, 1 << 31, (1 << 32) - 1))
        return struct.pack(">I", size) + data[4:]
    deep = b"[" * _DEEPEST + b"]" * choose.choice((0, _DEEPEST))
    return struct.pack(">I", len(deep)) + deep


def check(data: bytes) -> str:
    """Return what is wrong with the answers to a session."""
    form = ENCODINGS["lines" if data[:1] == b"L" else "packets"]
    decoder = form.decoder(_LIMIT)
    session = Session()
    for start in range(1, len(data), _PART):
        for item in decoder.feed(data[start : start + _PART]):
            found = _answered(session, form, item)
            if found:
                return found
    try:
        for item in decoder.end():
            found = _answered(session, form, item)
            if found:
                return found
    except ResourceError as error:
        if error.diagnostic.code != "INGOT0411":
            return f"the end of the input: {error}"
    last = session.answer(Message({"op": "devices", "id": 9}))
    return "" if last.header.get("ok") and last.header["id"] == 9 else f"deaf: {last.header}"


_PART = 1000


def _answered(session: Session, form: Encoding, item: bytes | ExecutionError) -> str:
    """Return what is wrong with the answer to one frame."""
    try:
        if isinstance(item, ExecutionError):
            raise item
        request = form.read(item)
    except ExecutionError as error:
        code = failure(error)["error"]["code"]
        return "" if code == "INGOT0522" else f"a frame is refused with {code}"
    said = read_header(bytes(form.header(item)))
    if any(said[key] != value for key, value in request.header.items()):
        return f"a header is read in two ways: {said}"
    answer = session.answer(request)
    for other in ENCODINGS.values():
        (back,) = other.decoder(1 << 32).feed(b"".join(other.parts(answer)))
        if isinstance(back, ExecutionError):
            return f"an answer is no message: {back}"
        other.read(back)
    header = read_header(json.dumps(answer.header).encode())
    if header.get("id") != request.header.get("id"):
        return f"the id {request.header.get('id')!r} comes back as {header.get('id')!r}"
    if header["ok"]:
        return ""
    error = header["error"]
    return f"{error['code']}: {error['text']}"[:2000] if _INTERNAL in error["code"] else ""


TARGET = Target("serve_frames", ".frames", generate, check, memory=8 << 30, runs_compiler=False)
