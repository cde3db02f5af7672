# SPDX-License-Identifier: Apache-2.0
"""Windows in HLO text: `{size=3x3 stride=2x2 pad=1_1x0_1 rhs_dilate=2x2}`, both ways.

XLA writes a part only when some dimension departs from its default; so does Ingot.

Source: xla/window_util.cc (ToString), xla/hlo/parser/hlo_parser.cc (ParseWindow).
"""

from __future__ import annotations

from ingot.formats.hlo_text.reader import SKIP, Reader
from ingot.hlo.window import Window, WindowDimension
from ingot.support.regex import regex
from ingot.support.text import did_you_mean

_PART = regex(SKIP + r"(\w++)=([\d_x\-]++)")
# Name in the text and field of a dimension; `pad` has two fields.
_FIELDS = {
    "size": "size",
    "stride": "stride",
    "pad": "pad",
    "lhs_dilate": "base_dilation",
    "rhs_dilate": "window_dilation",
    "rhs_reversal": "reversal",
}


def read_window(reader: Reader) -> Window:
    """Take `{size=… …}`."""
    start = reader.skip()
    reader.expect("{")
    parts: dict[str, list[list[int]]] = {}
    while (found := reader.take(_PART)) is not None:
        name, at = found.group(1), found.start(1)
        if name not in _FIELDS:
            hint = did_you_mean(name, _FIELDS)
            reader.fail(f"a window has no '{name}'", at=at, code="INGOT0103", hint=hint)
        parts[name] = [
            [reader.to_integer(digits, found.start(2)) for digits in item.split("_")]
            for item in found.group(2).split("x")
        ]
    reader.expect("}", "after the window")
    _check(reader, parts, start)
    return tuple(_dimension(parts, dim) for dim in range(len(parts.get("size", ()))))


def _check(reader: Reader, parts: dict[str, list[list[int]]], start: int) -> None:
    rank = len(parts.get("size", ()))
    for name, items in parts.items():
        width = 2 if name == "pad" else 1
        if len(items) != rank or any(len(item) != width for item in items):
            message = f"'{name}' of the window does not give {rank} dimensions"
            reader.fail(message, at=start, code="INGOT0101")


def _dimension(parts: dict[str, list[list[int]]], dim: int) -> WindowDimension:
    values = {_FIELDS[name]: items[dim][0] for name, items in parts.items() if name in _FIELDS}
    low = values.pop("pad", 0)
    high = parts["pad"][dim][1] if "pad" in parts else 0
    return WindowDimension(
        values["size"],
        values.get("stride", 1),
        low,
        high,
        values.get("base_dilation", 1),
        values.get("window_dilation", 1),
        bool(values.get("reversal", 0)),
    )


def write_window(window: Window) -> str:
    """Return `{size=3x3 pad=1_1x1_1}`."""
    texts: list[str] = []
    for name, field in _FIELDS.items():
        if name == "pad":
            items = [f"{each.low}_{each.high}" for each in window]
            default = "0_0"
        else:
            items = [str(int(getattr(each, field))) for each in window]
            default = {"size": "", "reversal": "0"}.get(field, "1")
        if any(item != default for item in items):
            texts.append(f"{name}={'x'.join(items)}")
    return "{" + " ".join(texts) + "}"
