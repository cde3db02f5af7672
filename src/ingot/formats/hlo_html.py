# SPDX-License-Identifier: Apache-2.0
"""HLO as a page: its text, where each name leads to its definition. No network, no scripts.

`--xla_dump_hlo_as_html` writes it. `ingot explain -o report.html` shows much more of a compiled
program; this shows any module, after any pass.

Example:
    >>> from ingot.formats.hlo_text import parse
    >>> module = parse("HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] sine(x) }")
    >>> '<a href="#i-x">%x</a>' in print_html(module)
    True
"""

from __future__ import annotations

import html

from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.support.regex import regex

_DEFINED = regex(r"^(\s+(?:ROOT )?)%([\w.\-]+)( = )|^((?:ENTRY )?)%([\w.\-]+)( \()")
_USED = regex(r"(=|\{|, |\()?%([\w.\-]+)")
_METADATA = regex(r", metadata=\{.*\}$")
_STYLE = """
:root { color-scheme: light dark; font: 13px/1.5 ui-monospace, monospace; }
body { margin: 1.5rem; background: Canvas; color: CanvasText; }
a { color: LinkText; text-decoration: none; } a:hover, a:focus { text-decoration: underline; }
b:target { background: Mark; color: MarkText; } small { opacity: .6; font-size: inherit; }
h1 { font-size: 1.1rem; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def print_html(module: Module) -> str:
    """Return the module as one HTML page."""
    title = html.escape(module.name)
    lines = (_line(text, module) for text in print_module(module).splitlines())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{title}</h1><pre>\n" + "\n".join(lines) + "\n</pre></body></html>\n"
    )


def _line(text: str, module: Module) -> str:
    found = _METADATA.search(text)
    tail = "" if found is None else f"<small>{html.escape(found[0])}</small>"
    text = text if found is None else text[: found.start()]
    head = ""
    defined = _DEFINED.match(text)
    if defined is not None:
        kind, (before, name, after) = (
            ("i", defined.group(1, 2, 3)) if defined[2] else ("c", defined.group(4, 5, 6))
        )
        head = f'{before}<b id="{kind}-{html.escape(name)}">%{html.escape(name)}</b>{after}'
        text = text[defined.end() :]
    return head + _linked(text, module) + tail


def _linked(text: str, module: Module) -> str:
    """Return text with each name replaced by a link."""
    parts: list[str] = []
    at = 0
    for found in _USED.finditer(text):
        before, name = found[1] or "", found[2]
        is_called = name in module.computations and before in ("=", "{", ", ")
        kind = "c" if is_called and (before != ", " or "={" in text) else "i"
        parts.append(html.escape(text[at : found.start()] + before))
        parts.append(f'<a href="#{kind}-{html.escape(name)}">%{html.escape(name)}</a>')
        at = found.end()
    return "".join(parts) + html.escape(text[at:])
