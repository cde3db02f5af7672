# SPDX-License-Identifier: Apache-2.0
"""The messages of a profile, as `schema` has those of programs: XSpace, what TensorBoard reads.

Source: tsl/profiler/protobuf/xplane.proto; the numbers are the format.
"""

from __future__ import annotations

PROFILE_SCHEMA = """
XSpace
  1 planes XPlane*
XPlane
  1 id int64
  2 name string
  3 lines XLine*
  4 event_metadata XEventMetadataEntry*
  5 stat_metadata XStatMetadataEntry*
XLine
  1 id int64
  2 name string
  3 timestamp_ns int64
  4 events XEvent*
  9 duration_ps int64
XEvent
  1 metadata_id int64
  2 offset_ps int64
  3 duration_ps int64
  4 stats XStat*
XStat
  1 metadata_id int64
  3 uint64_value uint64?
  4 int64_value int64?
  5 str_value string?
XEventMetadataEntry
  1 key int64
  2 value XEventMetadata
XEventMetadata
  1 id int64
  2 name string
  4 display_name string
  5 stats XStat*
XStatMetadataEntry
  1 key int64
  2 value XStatMetadata
XStatMetadata
  1 id int64
  2 name string
"""
