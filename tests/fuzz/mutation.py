# SPDX-License-Identifier: Apache-2.0
"""Random damage to data: bytes, words, lines, and joins of two texts.

A mutant is a seed with one to a few mutations, so that most of it still means something. Nothing
here knows a format; a target gives the words that its format has.

Example:
    text = mutated_text(random.Random(7), "x = f32[2] add(a, b)", "y = s32[] abs(c)", ("f64",))
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

Seed = TypeVar("Seed", str, bytes)

_PIECES = re.compile(r"\w+|\s+|.", re.DOTALL)
_NUMBER = re.compile(r"-?\d+")
_NAME = re.compile(r"%?[A-Za-z_][\w.\-]*")
ODD_WORDS = (
    *"{}()[],=%-:?\"'\\*x<>@#!/;_.",
    *("->", "<=", "/*", "*/", "//", "\n", "\t", "  ", "\0", "\x01", "\x7f"),
    *("λ", "é", "\u2028", "\u0660", "²", "\ufeff", "\U0001f600", "\ud800", "\udcff"),
    *("0", "1", "2", "3", "5", "7", "16", "64", "-1", "-2", "00", "1e9", "0x1", "1_0", "+1"),
    *("127", "128", "255", "256", "2147483647", "2147483648", "4294967296"),
    *("-9223372036854775808", "9223372036854775807", "9223372036854775808", "1" * 40),
    *("nan", "-nan", "inf", "-inf", "nan(0x1)", "1e999", "-0.0", "1e-400", "true", "false"),
)
"""What any text may be broken by."""
ODD_NUMBERS = (
    *range(-3, 9), 15, 16, 17, 31, 32, 63, 64, 100, 127, 128, 255, 256, 1000, 65535, 65536,
    (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 32, (1 << 62), (1 << 63) - 1,
    -(1 << 63), -(1 << 63) + 1, (1 << 64) - 1,
)  # fmt: skip
"""Numbers at the edge of something."""
RUN_SHARE = 0.04
"""How many mutants are compiled and run too: that takes longer than all of the rest."""

_DEEPEST = 300
_GENTLE = 0.6


def drawn(choose: random.Random, seeds: Sequence[Seed]) -> Seed:
    """Return the shorter of two seeds: a mutation changes more of it, and it is read sooner."""
    return min(choose.choice(seeds), choose.choice(seeds), key=len)


def mutated_bytes(choose: random.Random, data: bytes) -> bytes:
    """Return `data` with bytes flipped, set, deleted, repeated, moved or cut off."""
    work = bytearray(data or b"\0")
    for _ in range(_count(choose)):
        place = choose.randrange(len(work) or 1)
        end = place + choose.choice((1, 1, 1, 2, 4, 8, choose.randint(1, 64)))
        match choose.randrange(7):
            case 0:
                work[place:place] = bytes([choose.randrange(256)])
            case 1:
                del work[place:end]
            case 2:
                work[place:place] = work[place:end]
            case 3:
                work[place : place + 1] = bytes([choose.randrange(256)])
            case 4 if work:
                work[place] ^= 1 << choose.randrange(8)
            case 5:
                other = choose.randrange(len(work) or 1)
                work[other:other] = work[place:end]
            case _:
                if choose.random() < 0.2:
                    del work[place:]
    return bytes(work)


def mutated_text(
    choose: random.Random,
    text: str,
    other: str,
    words: Sequence[str],
    kinds: Sequence[re.Pattern[str]] = (),
) -> str:
    """Return `text` with one to a few mutations.

    Args:
        choose: where chance comes from.
        text: the seed.
        other: a text of the same format, of which pieces are taken.
        words: what stands in such texts.
        kinds: patterns of pieces; one in the place of another is often read, and means another
            thing. Most mutants have only such mutations.
    """
    gentle = kinds and choose.random() < _GENTLE
    for _ in range(_count(choose)):
        if gentle:
            text = _exchanged(choose, text, other, words, choose.choice(kinds))
        else:
            action = choose.choices(_ACTIONS, _WEIGHTS)[0]
            text = action(choose, text, other, words)
    return text


def _exchanged(
    choose: random.Random, text: str, other: str, words: Sequence[str], kind: re.Pattern[str]
) -> str:
    """Return a text with another piece of a kind in the place of one, here or everywhere."""
    found = [*kind.finditer(text)]
    if not found:
        return text
    place = choose.choice(found)
    drawn = {match.group() for match in kind.finditer(choose.choice((text, text, other)))}
    drawn |= {word for word in words if kind.fullmatch(word)} if choose.random() < 0.3 else set()
    new = choose.choice(sorted(drawn - {place.group()}) or [place.group()])
    if place.group().isdecimal() and choose.random() < 0.5:
        new = str(choose.choice((0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33)))
    if choose.random() < 0.5:
        return kind.sub(
            lambda match: new if match.group() == place.group() else match.group(), text
        )
    return text[: place.start()] + new + text[place.end() :]


def _count(choose: random.Random) -> int:
    return choose.choice((1, 1, 1, 1, 2, 2, 3, 5))


def _in_bytes(choose: random.Random, text: str, other: str, words: Sequence[str]) -> str:
    data = mutated_bytes(choose, text.encode("utf-8", "surrogatepass"))
    return data.decode("utf-8", "surrogateescape")


def _in_words(choose: random.Random, text: str, other: str, words: Sequence[str]) -> str:
    pieces = _PIECES.findall(text) or [" "]
    place, elsewhere = choose.randrange(len(pieces)), choose.randrange(len(pieces))
    match choose.randrange(6):
        case 0:
            del pieces[place : place + choose.randint(1, 4)]
        case 1:
            pieces[elsewhere:elsewhere] = pieces[place : place + choose.randint(1, 12)]
        case 2:
            pieces[place] = choose.choice(ODD_WORDS)
        case 3:
            pieces.insert(place, choose.choice(ODD_WORDS))
        case 4:
            pieces[place], pieces[elsewhere] = pieces[elsewhere], pieces[place]
        case _:
            pieces[place] = choose.choice(words)
    return "".join(pieces)


def _alike(pattern: re.Pattern[str]) -> Callable[..., str]:
    """Return the mutation that writes another match of `pattern` in the place of one."""

    def replace(choose: random.Random, text: str, other: str, words: Sequence[str]) -> str:
        found = [*pattern.finditer(text)]
        if not found:
            return text
        place = choose.choice(found)
        sources = [match.group() for match in pattern.finditer(choose.choice((text, other)))]
        drawn = choose.choice((sources or [""], [w for w in words if pattern.fullmatch(w)] or [""]))
        return text[: place.start()] + choose.choice(drawn) + text[place.end() :]

    return replace


def _number(choose: random.Random, text: str, other: str, words: Sequence[str]) -> str:
    found = [*_NUMBER.finditer(text)]
    if not found:
        return text
    place = choose.choice(found)
    near = min(int(place.group()[:19]) + choose.choice((-2, -1, 1, 2)), 1 << 63)
    number = near if choose.random() < 0.5 else choose.choice(ODD_NUMBERS)
    return text[: place.start()] + str(number) + text[place.end() :]


def _in_lines(choose: random.Random, text: str, other: str, words: Sequence[str]) -> str:
    lines, others = text.split("\n"), other.split("\n")
    place, elsewhere = choose.randrange(len(lines)), choose.randrange(len(lines))
    match choose.randrange(5):
        case 0:
            lines.insert(elsewhere, lines[place])
        case 1:
            del lines[place]
        case 2:
            lines.insert(elsewhere, lines.pop(place))
        case 3:
            lines.insert(place, choose.choice(others))
        case _:
            lines[place] = choose.choice(others)
    return "\n".join(lines)


def _splice(choose: random.Random, text: str, other: str, words: Sequence[str]) -> str:
    lines, others = text.split("\n"), other.split("\n")
    return "\n".join(
        lines[: choose.randint(0, len(lines))] + others[choose.randint(0, len(others)) :]
    )


def _deepen(choose: random.Random, text: str, other: str, words: Sequence[str]) -> str:
    """Repeat an opening bracket, with or without what closes it."""
    opening, closing = choose.choice(("()", "{}", "[]", ("/*", "*/"), ("tuple(", ")"), "<>"))
    count = choose.choice((2, 3, 10, 99, 101, _DEEPEST))
    place = choose.randint(0, len(text))
    end = choose.randint(place, min(len(text), place + 40))
    closed = closing * count if choose.random() < 0.7 else ""
    return text[:place] + opening * count + text[place:end] + closed + text[end:]


_MUTATIONS: dict[Callable[..., str], int] = {
    _in_bytes: 2,
    _in_words: 4,
    _alike(_NAME): 5,
    _number: 4,
    _in_lines: 3,
    _splice: 1,
    _deepen: 1,
}
_ACTIONS, _WEIGHTS = [*_MUTATIONS], [*_MUTATIONS.values()]
