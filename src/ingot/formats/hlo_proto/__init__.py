# SPDX-License-Identifier: Apache-2.0
"""HLO protos, both ways: HloModuleProto, HloProto and HloSnapshot as bytes.

* `literals`: arguments and results of runs: the proto of XLA's run_hlo_module, both ways;
* `writer`: modules to protos: HloModuleProto, HloProto, HloSnapshot;
* `reader`: protos to modules: HloModuleProto, and what contains one (HloProto, HloSnapshot);
* `extras`: attributes of any instruction, in the proto: metadata, sharding, frontend attributes,
  config;
* `fields`: attribute fields of the op table in the proto: one table row per field that is not
  plain;
* `structures`: structured attributes of the proto: windows, paddings, dimension labels, groups,
  both ways;
* `shapes`: shapes, layouts and literals of the proto, both ways;
* `sharding`: XLA's text `{devices=[2,1]<=[2]}` to an OpSharding message and back;
* `wire`: Protobuf's wire format, for the messages of `schema`: bytes to dictionaries and back;
* `schema`: the messages of XLA that Ingot reads and writes: programs and compile options;
* `ifrt_schema`: the messages that IFRT puts in front of a serialized executable, as `schema` has a
  program's;
* `profile_schema`: the messages of a profile, as `schema` has those of programs: XSpace, what
  TensorBoard reads.
"""

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
