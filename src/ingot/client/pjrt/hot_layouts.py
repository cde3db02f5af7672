# SPDX-License-Identifier: Apache-2.0
"""Layouts of buffers as machine code: hosts ask for one whenever an array is read.

All layouts are row-major, so a layout is its rank; its text is XLA's, `{1,0}`. Invariant: the
records are constants of the module, one per rank, which nobody frees.

Source: pjrt_c_api_layouts_extension.h.
"""

from __future__ import annotations

from ingot.client.pjrt.emit import Slot, is_null, return_static, static_error
from ingot.client.pjrt.errors import UNIMPLEMENTED
from ingot.client.pjrt.records import BUFFER, LAYOUT
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import I64, PTR
from ingot.llvm.values import FunctionRef, Value, zero

MAX_RANK = 64
"""As NumPy's."""
RANK_TEXT = f"arrays have at most {MAX_RANK} dimensions"


def emit_layouts(module: ModuleBuilder) -> None:
    """Add `ptr ingot_pjrt_layout(i64 rank)` and the slots to `module`."""
    layout_of = _emit_layout_of(module)
    too_many = static_error(module, "rank_error", UNIMPLEMENTED, RANK_TEXT)
    slot = Slot(module, "PJRT_Layouts_PJRT_Buffer_MemoryLayout")
    f = slot.f
    layout = f.call(layout_of, [BUFFER.load(f, slot.get("buffer"), "rank")])
    f.if_(is_null(f, layout), lambda: slot.done(return_static(f, too_many)), likely=False)
    slot.set("layout", layout)
    slot.done()

    slot = Slot(module, "PJRT_Layouts_MemoryLayout_Serialize")
    layout = slot.get("layout")
    slot.set("serialized_bytes", LAYOUT.load(slot.f, layout, "text"))
    slot.set("serialized_bytes_size", LAYOUT.load(slot.f, layout, "text_size"))
    slot.set("serialized_layout", layout)
    slot.set("serialized_layout_deleter", Value(PTR, "@ingot_pjrt_nothing"))
    slot.done()

    slot = Slot(module, "PJRT_Layouts_MemoryLayout_Destroy")
    slot.done()


def _emit_layout_of(module: ModuleBuilder) -> FunctionRef:
    """`ptr (i64 rank)`: the layout of a rank, or null."""
    rows: list[str] = []
    for rank in range(MAX_RANK + 1):
        data = f"{{{','.join(map(str, reversed(range(rank))))}}}".encode()
        text = module.global_bytes(f"layout_text_{rank}", data, align=1)
        rows.append(f"{{ ptr, i64 }} {{ ptr {text.text}, i64 {len(data)} }}")
    count = len(rows)
    table = module.global_text(
        "layouts", f"internal constant [{count} x {{ ptr, i64 }}] [{', '.join(rows)}], align 64"
    )
    f = module.function("ingot_pjrt_layout", PTR, [("rank", I64)])
    (rank,) = f.params
    known = f.icmp("ult", rank, f.const(I64, count))
    f.ret(f.select(known, LAYOUT.element(f, table, rank), zero(PTR)))
    return f.reference
