# SPDX-License-Identifier: Apache-2.0
"""Layouts of buffers, as native functions: hosts ask for one whenever an array is read.

A buffer without a layout is row-major: its layout is given by its rank; the text is XLA's, `{1,0}`.
Invariant: those structs are constants of the module, one for each rank; `layouts` makes the others.
No layout is ever freed.

Source: pjrt_c_api_layouts_extension.h.
"""

from __future__ import annotations

from typing import Any

from ingot.client.pjrt.c_api import UNIMPLEMENTED
from ingot.client.pjrt.native_code.emit import slot, static_error, static_reference
from ingot.client.pjrt.records import Buffer, Error, Layout
from ingot.native.functions import exported
from ingot.native.pointers import Pointer
from ingot.native.statics import static_structs
from ingot.native.types import i64
from ingot.support.text import braced

MAX_RANK = 64
"""As NumPy's."""
RANK_TEXT = f"arrays have at most {MAX_RANK} dimensions"
TOO_MANY = static_error("rank_error", UNIMPLEMENTED, RANK_TEXT)
_TEXTS = [braced(reversed(range(rank))).encode() for rank in range(MAX_RANK + 1)]
LAYOUTS = static_structs(
    Layout, "layouts", [{"text": text, "text_size": len(text)} for text in _TEXTS]
)


@exported("ingot_pjrt_layout")
def layout_of(rank: i64) -> Layout | None:
    """Return the layout of a rank, or null."""
    return LAYOUTS[rank] if 0 <= rank <= MAX_RANK else None


@exported("ingot_pjrt_nothing")
def do_nothing(data: Pointer | None, context: Pointer | None) -> None:
    """Do nothing: the deleter of constants."""


@slot("PJRT_Layouts_PJRT_Buffer_MemoryLayout")
def buffer_layout_slot(args: Any) -> Error | None:
    buffer: Buffer = args.buffer
    layout = buffer.layout
    if layout is None:
        layout = layout_of(buffer.rank)
    if layout is None:
        return static_reference(TOO_MANY)
    args.layout = layout
    return None


@slot("PJRT_Layouts_MemoryLayout_Serialize")
def serialize_slot(args: Any) -> Error | None:
    layout: Layout = args.layout
    args.serialized_bytes = layout.text
    args.serialized_bytes_size = layout.text_size
    args.serialized_layout = layout
    args.serialized_layout_deleter = do_nothing
    return None


@slot("PJRT_Layouts_MemoryLayout_Destroy")
def destroy_slot(args: Any) -> Error | None:
    return None
