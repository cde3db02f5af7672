# SPDX-License-Identifier: Apache-2.0
"""Mutated protos of HLO: a module or one of Ingot's own errors, and a module means what it prints.

A proto is broken in its bytes, or in its messages: fields that are missing, repeated, moved, out of
range, of another message, ids that form circles. Seeds are those of `hlo_text`.
"""

from __future__ import annotations

import random
from copy import deepcopy
from functools import cache
from typing import Any

from tests.fuzz.module_check import checked
from tests.fuzz.mutation import ODD_NUMBERS, ODD_WORDS, RUN_SHARE, drawn, mutated_bytes
from tests.fuzz.target import Target
from tests.fuzz.targets import hlo_text

from ingot.formats.hlo_proto import parse_hlo_proto, print_hlo_proto
from ingot.formats.hlo_proto.schema import message_types
from ingot.formats.hlo_proto.wire import decode, encode
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.opdef import table
from ingot.support.diagnostics import IngotError

MARK = b"\xf2\xff\x07\x03run"
"""What ends a mutant that is compiled and run too: a field that no message has."""
_KIND = "HloModuleProto"
_LONGEST_SEED = 20_000
_NUMBERS = frozenset(("int32", "int64", "uint32", "uint64", "enum"))
_NARROW = ("int32", "enum")
Message = dict[str, Any]


@cache
def seeds() -> tuple[bytes, ...]:
    """Return the protos that are mutated."""
    found: list[bytes] = []
    for text in hlo_text.seeds():
        try:
            data = print_hlo_proto(parse_hlo(text))
        except IngotError:  # Symbolic sizes have no place in a proto.
            continue
        if len(data) <= _LONGEST_SEED:
            found.append(data)
    return tuple(found)


def generate(choose: random.Random) -> bytes:
    """Return a mutant of a seed."""
    data = drawn(choose, seeds())
    if choose.random() < 0.3:
        return mutated_bytes(choose, data)
    message = decode(data, _KIND)
    for _ in range(choose.choice((1, 1, 1, 2, 2, 4))):
        _damage(choose, message)
    mutant = encode(message, _KIND)
    if choose.random() < 0.1:
        mutant = mutated_bytes(choose, mutant)
    return mutant + MARK if choose.random() < RUN_SHARE else mutant


def _damage(choose: random.Random, message: Message) -> None:
    """Change one field of a message, or of one in it."""
    holders = [*_messages(message, _KIND)]
    # Instructions are where most of the meaning is, and shapes and attributes inside them.
    held, kind = choose.choice(holders)
    if choose.random() < 0.3:
        rows = [row for row in holders if row[1] == "HloInstructionProto"]
        held, kind = choose.choice(rows or holders)
    fields = message_types()[kind].fields
    present = [field for field in fields if field.name in held]
    field = choose.choice(present if present and choose.random() < 0.8 else fields)
    match choose.randrange(6):
        case 0:
            held.pop(field.name, None)
        case 1:
            others = [row for row, other in holders if other == kind and field.name in row]
            if others:
                # A copy: a message that stands in itself has no end.
                held[field.name] = deepcopy(choose.choice(others)[field.name])
        case _ if field.repeated:
            held[field.name] = _other_list(choose, held.get(field.name, []), field.type)
        case _:
            held[field.name] = _other(choose, held.get(field.name), field.type)


def _messages(message: Message, kind: str) -> list[tuple[Message, str]]:
    found, stack = list[tuple[Message, str]](), [(message, kind)]
    while stack:
        held, name = stack.pop()
        found.append((held, name))
        for field in message_types()[name].fields:
            value = held.get(field.name)
            if value is not None and field.type in message_types():
                parts = value if field.repeated else [value]
                stack.extend((part, field.type) for part in parts)
    return found


def _other_list(choose: random.Random, items: list[Any], kind: str) -> list[Any]:
    items = list(items)
    place = choose.randrange(len(items)) if items else 0
    match choose.randrange(6):
        case 0 if items:
            del items[place]
        case 1 if items:
            items.insert(choose.randrange(len(items)), items[place])
        case 2 if items:
            other = choose.randrange(len(items))
            items[place], items[other] = items[other], items[place]
        case 3 if items:
            items[place] = _other(choose, items[place], kind)
        case 4:
            items = []
        case _:
            items.insert(place, _other(choose, items[place] if items else None, kind))
    return items


def _other(choose: random.Random, value: Any, kind: str) -> Any:
    """Return another value of a field of this type."""
    if kind == "bool":
        return not value
    if kind in _NUMBERS:
        near = (value or 0) + choose.choice((-1, 1, 2))
        number = near if choose.random() < 0.5 else choose.choice(ODD_NUMBERS)
        return (number + (1 << 31)) % (1 << 32) - (1 << 31) if kind in _NARROW else number
    if kind in ("float", "double"):
        return choose.choice((0.0, -1.0, float("nan"), float("inf"), 1e38))
    if kind in ("string", "bytes"):
        texts = (*ODD_WORDS, *table(), "", "x" * 300)
        text = choose.choice(texts).encode("utf-8", "replace")
        text = mutated_bytes(choose, text) if choose.random() < 0.2 else text
        return text if kind == "bytes" else text.decode("utf-8", "surrogateescape")
    return {} if choose.random() < 0.5 else dict(value or {})


def check(data: bytes) -> str:
    """Return what is wrong with how a proto is read, written and run."""
    return checked(lambda: parse_hlo_proto(data), runs=data.endswith(MARK))


TARGET = Target("hlo_proto", ".pb", generate, check, runs_compiler=False)
