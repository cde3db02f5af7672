# SPDX-License-Identifier: Apache-2.0
"""The op table's rows, one file per family; `ingot.hlo.opdef` defines the fields of a row.

* `collective`: collective ops: values that several devices compute together, and device numbers;
* `control`: control ops: call, while, conditional;
* `dots`: dots beyond dot: over groups of rows, and of scaled operands;
* `dynamic`: bounded dynamic dimensions, `f32[<=8]`: ops that set a size, and reshape by sizes;
* `elementwise`: elementwise ops: result element i depends on element i of each operand;
* `indexing`: indexing ops: elements moved by computed indices, and sorting;
* `linalg`: linear algebra: the factorization and the solver that have HLO opcodes;
* `normalization`: batch normalization: training, inference and gradient;
* `random`: random ops: bit generators with explicit state, and XLA's older stateful ones;
* `reduction`: reductions of dimensions and of windows, of several operands at once; map;
* `shaping`: shaping ops: they move elements and compute nothing;
* `structural`: structural ops: parameters, constants, tuples, fusions, tokens, custom calls;
* `transfer`: transfer ops: asynchronous pairs, copies in flight, send and recv, infeed and outfeed;
* `transforms`: transforms of whole dimensions: fft, and scan, which carries a state along a
  dimension;
* `contraction`: dot with batch and contracting dimensions, convolution;
* `library_calls`: shape constraints of the custom calls that XLA itself defines;
* `regions`: signatures of the computations that reduce, window, scatter, sort, map and collective
  ops apply;
* `windows`: constraints on every window: sizes, strides and dilations are positive.
"""
