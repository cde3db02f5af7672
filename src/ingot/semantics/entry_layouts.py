# SPDX-License-Identifier: Apache-2.0
"""Layouts of a module's parameters and results: in which order the host wants their elements.

A host's program says so for its entry (`mhlo.layout_mode`); whoever has the buffers reads it. The
module keeps them among its `frontend_attributes`, by XLA's names. Each is a layout as text,
`{0,1}`, minor to major, or `auto`: the compiler may choose. Where all are row-major nothing is
kept. `ingot.compile` takes and gives logical arrays, to which layouts mean nothing.

Example:
    >>> module = Module("m")
    >>> write_entry_layouts(module, ["{0,1}"], ["auto", "{0}"])
    >>> module.extra["frontend_attributes"]
    '{out_layout_modes="auto;{0}",arg_layout_modes="{0,1}"}'
    >>> take_entry_layouts(module), module.extra
    ((((0, 1),), (None, (0,))), {})

Source: xla/pjrt/layout_mode.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.module import Module
from ingot.semantics.call_layouts import Order, order_of_text
from ingot.semantics.frontend_attributes import drop_attribute, read_attribute, write_attribute
from ingot.support.regex import regex
from ingot.support.text import braced

AUTO = "auto"
_NAMES = ("arg_layout_modes", "out_layout_modes")
_LAYOUT = regex(r"\{(\d+(?:,\d+)*)?(?::E\(\d+\))?\}")
"""An order, and the bits of an element: in Ingot's buffers an element has whole bytes."""

Layouts = tuple[Order | None, ...]
"""A layout each; None if the compiler may choose."""


def order_of(text: str, rank: int) -> Order | None:
    """Return the layout `{0,1}` of `rank` dimensions; None if the text is none."""
    match = _LAYOUT.fullmatch(text)
    order = order_of_text(match.group(1) or "") if match else ()
    return order if match and sorted(order) == list(range(rank)) else None


def layout_text(order: Order) -> str:
    """Return a layout as XLA's text."""
    return braced(order)


def take_entry_layouts(module: Module) -> tuple[Layouts, Layouts] | None:
    """Return the layouts of parameters and results, and drop them; None if all are row-major."""
    parameters, results = (read_attribute(module.extra, name) for name in _NAMES)
    if parameters is None or results is None:
        return None
    for name in _NAMES:
        drop_attribute(module.extra, name)
    return _read(parameters), _read(results)


def write_entry_layouts(module: Module, parameters: Sequence[str], results: Sequence[str]) -> None:
    """Keep the layouts of parameters and results."""
    for name, modes in zip(_NAMES, (parameters, results), strict=True):
        write_attribute(module.extra, name, ";".join(modes))


def _read(text: str) -> Layouts:
    modes = text.split(";") if text else []
    return tuple(None if mode == AUTO else order_of_text(mode[1:-1]) for mode in modes)
