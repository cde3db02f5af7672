# SPDX-License-Identifier: Apache-2.0
"""The messages that IFRT puts in front of a serialized executable, as `schema` has a program's.

Their layouts and shard shapes are for executables of several devices; `frontends.jax.compilation`
writes them.
Source: xla/python/pjrt_ifrt/pjrt_executable.cc (CommonMetadata::Serialize); the numbers are the
format.
"""

from __future__ import annotations

IFRT_SCHEMA = """
IfrtExecutable
  1 ifrt_version_number int64
  2 runtime_name string
  5 output_specs IfrtOutput*
  6 parameter_specs IfrtParameter*
  7 computation_name string
  9 executable_version IfrtExecutableVersion
IfrtExecutableVersion
IfrtOutput
  1 shape IfrtShape
  2 dtype IfrtDType
  4 memory_kind string
  6 shard_shape IfrtShape
IfrtShape
  1 dims int64*
IfrtDType
  1 kind int64
IfrtParameter
  1 layout IfrtLayout
  3 donated_input bool
IfrtLayout
  1 serialized IfrtSerialized
IfrtSerialized
  1 type_name string
  2 data bytes
IfrtPjRtLayout
  1 layout LayoutProto
"""
