# SPDX-License-Identifier: Apache-2.0
"""TensorFlow functions to HLO: `lower(captured, binding, name) -> LoweredFunction`.

Reads `CapturedFunction` (plain records, no TensorFlow object), writes a `Module` whose entry
follows the `Binding`. The flow: `entry` makes the parameters, `walk.graph` takes the function's
nodes in order and calls the rule of each node's op with an `Op` (`context.op`), and `entry` returns
the results. There is one small rule per op type, in a table `RULES` of the module of its family;
`partitioning.op_families` says which family has an op. Packages of rules have the names that
TensorFlow gives its own groups of ops.

* `entry`: the entry computation: parameters and results as the binding says, then the walk;
* `coverage`: which TensorFlow ops compile: a page made from the tables, next to TensorFlow's own
  XLA;
* `quantization_ops`: integers that stand for floats of a range;
* `xla_ops`: `Xla*` ops, by which a program asks for HLO instructions by name;
* `control_flow`: calls, branches and loops;
* `collectives`: groups of devices: which group one belongs to;
* `image_ops`: colours, resizing, crops, transforms, and non-maximum suppression of boxes;
* `nn_ops`: convolutions, pools, norms, activations, recurrent cells, CTC;
* `linalg_ops`: matrices: products, factorizations and solves;
* `math_ops`: elementwise mathematics, reductions, scans, Fourier transforms and sorts;
* `random_ops`: random ops, with the numbers that TensorFlow's own kernels draw;
* `list_ops`: TensorLists and TensorArrays: lists of tensors as buffers with a count;
* `sparse_ops`: sparse and ragged tensors, and counts over them;
* `array_ops`: ops that move elements: shapes, slices, joins, diagonals, selections;
* `state_ops`: variables, and the optimizers that write them;
* `walk`: the walk over a function's nodes, and compile-time folding;
* `indexing`: elements at computed indices: gathers, scatters, checks, strided slices;
* `context`: what a rule sees of its node, and what one lowering knows while it walks a function.
"""

from ingot.frontends.tensorflow.lowering.entry import lower

__all__ = ["lower"]
