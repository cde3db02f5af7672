# SPDX-License-Identifier: Apache-2.0
"""HLO protos, both ways: HloModuleProto, HloProto and HloSnapshot as bytes."""

from ingot.formats.hlo_proto.reader import Snapshot, parse_hlo_proto, parse_snapshot
from ingot.formats.hlo_proto.writer import print_hlo_proto, print_snapshot

__all__ = ["Snapshot", "parse_hlo_proto", "parse_snapshot", "print_hlo_proto", "print_snapshot"]
