# SPDX-License-Identifier: Apache-2.0
"""Formats: texts and bytes of other tools, read into modules and written from them.

* `hlo_dot`: HLO as a graph in DOT, the language of Graphviz, for `--xla_dump_hlo_as_dot`;
* `hlo_html`: HLO as a page: its text, where each name leads to its definition;
* `load`: `load` and dump: a module from a file or bytes of any format, and back;
* `stablehlo`: StableHLO in: MLIR text, MLIR bytecode and VHLO portable artifacts to HLO modules;
* `hlo_proto`: HLO protos, both ways: HloModuleProto, HloProto and HloSnapshot as bytes;
* `packed`: pack and unpack: a module as bytes for another process of the same Ingot;
* `hlo_text`: XLA's own syntax, read into a module and printed back;
* `index_vectors`: the older form of dynamic slices: one vector of indices instead of a scalar per
  dimension.
"""
