# SPDX-License-Identifier: Apache-2.0
"""HLO protos, both ways: HloModuleProto, HloProto and HloSnapshot as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.formats.hlo_proto.reader import Snapshot, parse_hlo_proto, parse_snapshot
    from ingot.formats.hlo_proto.writer import print_hlo_proto, print_snapshot

__all__ = ["Snapshot", "parse_hlo_proto", "parse_snapshot", "print_hlo_proto", "print_snapshot"]

__getattr__ = names_at_home(
    __name__,
    {
        "Snapshot": ".reader",
        "parse_hlo_proto": ".reader",
        "parse_snapshot": ".reader",
        "print_hlo_proto": ".writer",
        "print_snapshot": ".writer",
    },
)
