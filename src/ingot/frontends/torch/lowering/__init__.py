# SPDX-License-Identifier: Apache-2.0
"""ATen graphs to HLO: `lower(piece, name) -> Lowered`.

The flow: `graph` makes the parameters of a piece, `walk` takes its nodes in order and calls the
rule of each node's op, and `graph` returns the results. There is one small rule for each op, in a
table of its family, which `rules` merges. A rule is a function of an `Op` (`context.op`) and the
op's arguments, in the order and by the names of PyTorch's schema.

The packages and files, importers first:

* `graph`: a piece of an ATen graph as an HLO module: parameters, the walk over its nodes, results;
* `walk`: the walk over the nodes of an ATen graph, which calls each node's rule with its arguments;
* `rules`: every rule: the families' tables as one;
* `higher_order`: higher-order ops: cond, while_loop, scan, map, invoke_subgraph; counted loops;
* `nn_ops`: convolutions, pools, resampling, norms, attention, embedding bags;
* `linalg_ops`: products and factorizations of matrices, distances of rows, and Fourier transforms;
* `indexing_ops`: ops that move elements: views, slices, joins, gathers, scatters, masks;
* `pointwise_ops`: elementwise ops: arithmetic, comparisons, bits, activations, special functions;
* `reduction_ops`: reductions, scans, softmax and sorts along dimensions;
* `assertions`: assertions of values: the program ends with PyTorch's message where one does not
  hold;
* `context`: what a rule sees of its op, and what the lowering knows of named sizes.
"""

from ingot.frontends.torch.lowering.graph import lower

__all__ = ["lower"]
