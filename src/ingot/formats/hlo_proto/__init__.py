# SPDX-License-Identifier: Apache-2.0
"""HLO protos, both ways: HloModuleProto, HloProto and HloSnapshot as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.formats.hlo_proto.reader import Snapshot, parse_hlo_proto, parse_snapshot
    from ingot.formats.hlo_proto.writer import print_hlo_proto, print_snapshot

__all__ = ["Snapshot", "parse_hlo_proto", "parse_snapshot", "print_hlo_proto", "print_snapshot"]

_READER, _WRITER = f"{__name__}.reader", f"{__name__}.writer"

__getattr__ = names_at_home(
    __name__,
    {
        "Snapshot": _READER,
        "parse_hlo_proto": _READER,
        "parse_snapshot": _READER,
        "print_hlo_proto": _WRITER,
        "print_snapshot": _WRITER,
    },
)
