# SPDX-License-Identifier: Apache-2.0
"""ATen graphs to HLO: `lower(piece, name) -> Lowered`.

There is one small rule for each op, in tables by family, which `rules` merges. A rule is a function
of the op and its arguments, in the order and by the names of PyTorch's schema.

The other files, those that import others first:

* `graph`: a piece of an ATen graph as an HLO module: parameters, the walk over its nodes, results;
* `walk`: the walk over the nodes of an ATen graph, which calls each node's rule with its arguments;
* `activation`: activations, and gradients of some, that PyTorch does not decompose;
* `adaptive_pooling`: adaptive pools, whose windows follow from the sizes: averages, maxima with
  indices, gradients;
* `arithmetic`: sums, products, quotients in every rounding, powers, extremes, and functions of
  integers;
* `attention`: scaled dot-product attention and its gradient, as products around a softmax;
* `bits`: ops on bits: of integers (shifts, logic), and of floats (signs, exponents, kinds of
  values);
* `columns`: col2im, the gradient of im2col: the elements of all windows are added at their places;
* `complex_numbers`: parts, conjugates, angles;
* `convolution`: convolutions of one to three dimensions, transposed ones, and their gradients;
* `cumulative`: running sums, products, extremes and log-sum-exps along a dimension;
* `diagonals`: diagonals of matrices, and the indices of triangles;
* `distances`: distances between all pairs of rows, and their gradients;
* `distinct`: the distinct elements of an array, or slices of it: see `data_sizes`;
* `elementwise`: elementwise ops that are one opcode, or nearly: transcendentals, comparisons,
  logic, selection;
* `embedding_bag`: bags of embeddings: the rows of each bag are summed or averaged, or the maxima;
* `fused_layers`: PyTorch's fused layers of inference: a whole transformer encoder layer, an LSTM
  layer;
* `grid_sampling`: sampling of images at computed coordinates (grid_sample), in two and three
  dimensions;
* `grouped_products`: products of groups, as mixtures of experts make them: _grouped_mm is a
  `ragged-dot`;
* `higher_order`: higher-order ops: cond, while_loop, scan, map, invoke_subgraph; counted loops;
* `jagged`: rows of many lengths, one after the other (nested tensors of the layout `jagged`), and
  padded;
* `linalg`: linear algebra: factorizations, solves, determinants, eigenvalues, singular values;
* `matmul`: matrix products;
* `normalization`: batch, layer and group normalization, and their gradients;
* `overlap_add`: unfold_backward: windows of a dimension are added where they overlap, as istft
  does;
* `packed_weights`: weights of four bits, as PyTorch packs them for CPU: packing them, and products
  with them;
* `padding`: gradients of padding that repeats the border elements;
* `pseudoinverse`: pseudoinverses of matrices: linalg_pinv;
* `resampling`: upsampling: nearest, linear, cubic, antialiased, in one to three dimensions;
* `scatter`: `x[i, index[i, j]] = src[i, j]`, replaced or combined; and by slices, index_reduce;
* `shaping`: ops that only move elements (views, permutations, slices, concatenation), and
  constants;
* `softmax`: softmax, log-softmax and their derivatives;
* `special`: special functions: gamma's and the error function's relatives, Bessel functions,
  polynomials;
* `spectral`: Fourier transforms over any dimensions;
* `strides`: views by strides, and writes into parts of a tensor: as_strided, slice_scatter;
* `adaptive_windows`: adaptive windows along an axis of symbolic size: sums and greatest, loops over
  the taps;
* `guards`: sizes that PyTorch knows by its guards, while HLO's shape rules have an expression;
* `indexing`: indexing by tensors: `x[i, :, j]` and its writes, index_select, gather, take,
  embeddings;
* `masks`: the indices that a mask selects, and counts of numbers, for a size that is known:
  `data_sizes`;
* `open_resampling`: resampling along an axis of symbolic size: indices and weights are computed at
  run time;
* `pointwise`: elementwise rules from functions of a builder and operands, shared by the families of
  rules;
* `pooling`: pools with windows: maximum with indices, average; and their gradients;
* `searching`: searches in sorted rows, segments, and histograms;
* `sorting`: sorting, selection of the greatest and k-th elements, medians, modes, searches in
  sorted rows;
* `symbols`: the named sizes that occur in nodes, and in the bodies of their higher-order ops;
* `index_checks`: indices of PyTorch's ops: counted from the front, and checked;
* `reduction`: reductions over dimensions: sums, products, extremes, truth, variances, norms;
* `assertions`: assertions of values: the program ends with PyTorch's message where one does not
  hold;
* `table`: `RuleTable`: the rules of one family of ops, by the names of PyTorch's overloads;
* `op`: the context of an ATen op's rule, besides the op's arguments;
* `bounds`: upper bounds of symbolic sizes that vary little: `greatest_value(size)`;
* `builder`: `GraphBuilder`: an `ArrayBuilder` that knows the run-time values of named sizes;
* `numbers`: floats computed from named sizes: a `SymFloat` of PyTorch as a run-time number.
"""

from ingot.frontends.torch.lowering.graph import lower

__all__ = ["lower"]
