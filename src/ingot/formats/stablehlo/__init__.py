# SPDX-License-Identifier: Apache-2.0
"""StableHLO in: MLIR text, MLIR bytecode and VHLO portable artifacts to HLO modules.

`print_stablehlo` prints what XLA makes of an HLO proto.

jaxlib reads MLIR (`binding`); this package walks the resulting module (`conversion`) and makes HLO,
with one row per op (`table`).

The other files, those that import others first:

* `exported`: serialized `jax.export` results: a FlatBuffer with a StableHLO artifact inside;
* `isolated`: parse_isolated: StableHLO read in a child process, which damaged data may kill;
* `printing`: StableHLO out: what XLA makes of an HLO proto;
* `reader_process`: the child process of `isolated`: reads StableHLO that may kill it, and returns
  the module;
* `parse`: parse_stablehlo: the entry point of the package, and the attributes of the entry
  function;
* `contexts`: reused MLIR contexts: making and ending one takes longer than reading a module;
* `propagation`: Shardy's own passes over a module that several devices share, before it becomes
  HLO;
* `promotion`: reductions whose computation takes wider elements than the operands have;
* `control`: converters of control flow and calls: while, if, case, call, composite;
* `deprecated`: ops that StableHLO's specification no longer has, but that XLA still supports;
* `dynamic`: converters of ops whose sizes are operands, and of what JAX exports with symbolic
  sizes;
* `generated`: converters derived from the op table: same op and attributes, possibly with other
  names;
* `quantized`: quantized tensors (`tensor<4x!quant.uniform<i8:f32, 0.1:-3>>`): integers that stand
  for numbers;
* `structural`: converters of custom calls and tuples;
* `composites`: CHLO ops and composites: the native op where there is one, else the decomposition;
* `computed_sizes`: slices, paddings and sizes that a program computes from data, for results with
  bounds;
* `devices`: converters of ops between devices, and between the program and its host;
* `shape_assertions`: converter of shape_assertion, a custom call by which JAX checks a condition on
  sizes;
* `shaping`: converters of shaping ops with other attributes in HLO, and of constants;
* `shardy`: converters of Shardy's ops: the shardings of values when several devices share a
  program;
* `calls`: calls of functions, and results that are tuples: used by several families;
* `computing`: converters of contractions, windowed reductions, indexing, sorting and random ops;
* `constants`: MLIR's dense elements to literals;
* `scope`: scopes and sites: a block being converted, and one op in it;
* `module_state`: what the conversion of an MLIR module knows of the whole module: names, types,
  sizes, meshes;
* `locations`: MLIR locations to metadata: names become op_name, the innermost file:line the source
  location;
* `mesh_shardings`: Shardy's shardings as XLA's text: `<@mesh, [{"x"}, {}]>` is
  `{devices=[2,1,2]<=[4] …}`;
* `sizes`: sizes that a program computes: the symbolic size of an integer instruction's value;
* `types`: MLIR types to shapes: `tensor<2x?xf32>` is `f32[2,?d]`, tokens and tuples are themselves;
* `attributes`: MLIR attributes to the values of the op table's attribute fields, by the field's
  codec;
* `equal_sizes`: sizes that an op requires to be equal: two such `?` are one size;
* `quantization`: quantized element types, read from MLIR's text: `!quant.uniform<i8:f32, 0.1:-3>`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.formats.stablehlo.parse import Exported, parse_exported, parse_stablehlo
    from ingot.formats.stablehlo.printing import print_stablehlo

__all__ = ["Exported", "parse_exported", "parse_stablehlo", "print_stablehlo"]

__getattr__ = names_at_home(
    __name__,
    {
        "Exported": ".parse",
        "parse_exported": ".parse",
        "parse_stablehlo": ".parse",
        "print_stablehlo": ".printing",
    },
)
