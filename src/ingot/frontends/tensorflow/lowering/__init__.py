# SPDX-License-Identifier: Apache-2.0
"""TensorFlow functions to HLO: `lower(captured, binding, name) -> LoweredFunction`.

Reads `CapturedFunction` (plain records, no TensorFlow object), writes a `Module` whose entry
follows the `Binding`. One small rule per op type, in tables by family; `rules` merges them.

The other files, those that import others first:

* `activation`: activations and their gradients, softmax and the cross-entropies;
* `banded`: triangular matrices of few diagonals: their systems are solved row by row;
* `binary`: elementwise ops of two or more operands: arithmetic, comparison, logic, selection;
* `blocks`: space, depth and batch: ops that move blocks of an image between dimensions;
* `collectives`: groups of devices: which group one belongs to;
* `combined_suppression`: non-maximum suppression of every class of a batch of images, and the best
  boxes of all classes;
* `convolution`: convolutions and their gradients, each one HLO `convolution`
  (`building.convolution`);
* `counts`: how often each number comes: in a vector, or in each row of a matrix, ragged or sparse;
* `coverage`: which TensorFlow ops compile: a page made from the tables, next to TensorFlow's own
  XLA;
* `crops`: crops of boxes, resized to one size; and their gradients, of the images and of the boxes;
* `ctc`: greedy decoding for connectionist temporal classification: labels from scores by time;
* `ctc_loss`: the loss of connectionist temporal classification, and its gradient by the scores;
* `cumulative`: cumulative sums, products and log-sum-exps along an axis, by `building.scans`;
* `diagonals`: diagonals of matrices, one-hot rows, bands and triangles;
* `drawing`: boxes drawn on images, and windows cut out of images at offsets that are data;
* `entry`: the entry computation: parameters and results as the binding says, then the walk;
* `filled_rows`: rows without a value get one: what a lookup of sparse or ragged words does before
  it starts;
* `fractional_pooling`: pools whose windows are of two sizes, one more than the other, in
  TensorFlow's own random order;
* `images`: colour spaces and adjustments; and fake quantisation;
* `layouts`: smaller ops that rearrange: sequences, data formats, gradients of mirrored padding;
* `least_squares`: `MatrixSolveLs`, the solution of A x = b with the smallest error, or norm;
* `list_pieces`: TensorLists and the tensor that their elements make end to end:
  `TensorArray.split`, concat;
* `local_norm`: local response normalisation over neighbouring channels, and its gradient;
* `normalization`: batch normalisation and its gradients;
* `patches`: patches of images and volumes: windows as they are, or folded with a filter by max and
  plus;
* `pooling`: pools and their gradients: windows folded, and gradients put back into the windows;
* `projective`: projective transforms of images: each pixel of the result is looked up where 8
  numbers say;
* `quantization`: quantisation by a range, to integers and back, or at once to floats of 2^bits
  values;
* `random_binomial`: numbers of the binomial distribution, TensorFlow's own: by the loop of
  `random_counts`;
* `random_gamma`: numbers of the gamma distribution, TensorFlow's own;
* `random_truncated`: normal numbers between two bounds, each batch with parameters of its own;
* `recurrent`: recurrent cells that are one op: LSTM with peepholes, one step or a loop over time,
  and GRU;
* `resource_arrays`: stacks and TensorArrays that are resources: what TensorFlow 1 has in place of
  TensorLists;
* `scale_translate`: images resampled by a filter, scaled and moved by run-time numbers;
* `shaping`: ops that move elements: shapes, joins, splits, fills, tiles, ranges;
* `slicing`: slices, their gradients and updates, and padding;
* `sorting`: top-k, searches in sorted rows, buckets;
* `sparse`: sparse tensors: products, sums, orders and elementwise ops of indices `[n, rank]` and
  values;
* `sparse_optimizers`: Optimizer steps on rows of variables: `ResourceSparseApply*`, as gradients of
  embeddings give;
* `special`: special functions: the rules of the ops whose mathematics all front ends share;
* `spectral`: Fourier transforms of the last one, two or three dimensions;
* `static`: the value of a single node outside of any lowering: constants, shapes, what is folded of
  them;
* `stitching`: stitches and differences of lists: known at compile time where shapes follow, else at
  run time;
* `tridiagonal`: tridiagonal matrices, given by their three diagonals: solves and products;
* `unary`: elementwise ops of one operand, and the gradients of those that have an op of their own;
* `uniform_quantization`: uniformly quantised integers: value = (integer - zero point) * scale, per
  tensor or per axis;
* `xla_calls`: `Xla*` ops that call functions: reductions, windows, sorts, scatters, branches,
  loops;
* `xla_grids`: grids of equal blocks: tensors and variables put together from shards, and cut into
  them;
* `xla_modules`: `XlaCallModule`: a StableHLO program inside a TensorFlow function, as JAX's jax2tf
  makes it;
* `xla_products`: `Xla*` products and convolutions, with dimension numbers and precision as HLO has
  them;
* `control_flow`: calls, branches and loops;
* `linalg`: linear algebra: factorizations, solves, eigenvalues and what is computed from them;
* `matmul`: matrix products: MatMul, BatchMatMul, Einsum, and the addition of biases;
* `nested_lists`: lists of lists between programs: the elements of all lists end to end, and how
  many each has;
* `optimizers`: Optimizer steps as single ops: `ResourceApply*`, as TensorFlow 1 and Keras 2
  optimizers emit;
* `pixels`: pixels of images as rows of channels: what crops and projective transforms gather and
  scatter;
* `ragged`: ragged tensors: ranges, gathers, and dense or sparse tensors of rows of different
  lengths;
* `random_counts`: numbers of the Poisson distribution, TensorFlow's own;
* `random_picks`: random picks with TensorFlow's own numbers: shuffles, and draws from categories;
* `reduction`: reductions over axes, and argmax and argmin;
* `resizing`: resizing of images: nearest, bilinear, bicubic, by area; and the gradients;
* `specialiser`: what one lowering has learnt before each attempt: equal sizes, and values and sizes
  of the call;
* `suppression`: non-maximum suppression: boxes are taken by falling score unless they overlap one
  taken before;
* `tensor_lists`: the buffers behind TensorArray, and what gradients of loops push and pop;
* `windows`: what convolutions and pools share: data formats, strides and padding of an op's node;
* `xla`: TensorFlow's own `Xla*` ops: HLO instructions that a program asks for by name;
* `graph`: the walk: a captured function's nodes, in order, each by its rule;
* `list_checks`: what TensorFlow checks of TensorLists: shapes of elements, indices and lengths;
* `open_resizing`: resizing of images along an axis of open size: the program computes which pixels
  it takes;
* `random_parameters`: random numbers whose distribution has parameters: as many numbers for each of
  them as asked for;
* `worker_shares`: how many rows TensorFlow's kernels give to a worker thread at a time;
* `fold`: arithmetic at compile time on small known arrays, symbolic sizes included;
* `list_state`: TensorLists as the state of loops and the results of branches: counted, with room to
  grow;
* `random`: random ops with TensorFlow's own numbers;
* `ranks`: the ranks that ops need of operands, for rules that would take any;
* `quotients`: quotients and remainders of symbolic sizes, some of which may be negative;
* `sparse_structure`: sparse tensors whose indices change: reshapes, concatenations, slices, splits
  and sums;
* `strided`: what a StridedSlice means: its masks resolved against the operand's dimensions;
* `threefry`: random numbers of the ThreeFry algorithm, as TensorFlow's XLA makes them;
* `variables`: reads and writes become values threaded through the walk in `Frame.state`;
* `data_sizes`: ops whose results are as large as the data says: positions, partitions, segments;
* `gather`: elements or slices taken at computed indices, and the coordinates of elements;
* `philox`: TensorFlow's Philox 4x32-10 and its conversions, as HLO integer ops over an iota;
* `scatter`: scatters and segment reductions: updates combined into computed indices;
* `index_checks`: checks of indices: one out of range ends the program, as in TensorFlow's kernels
  for CPU;
* `op`: what the rule of a TensorFlow op sees of its node, and the errors that it can give;
* `affine`: integer scalars as sums of products: what begin and end of a slice have in common;
* `computed_sizes`: sizes that only run time knows: an integer of the program becomes a size of its
  shapes;
* `constants`: values that the lowering needs at compile time: found by evaluation, or asked of the
  arguments;
* `frame`: one HLO computation being built, with the state of variables and sizes in it;
* `tensors`: the builder of TensorFlow's rules, which learns which sizes must be equal;
* `program`: what one lowering shares over all its computations;
* `loop_counters`: loop variables that count: from a number, by a number, while they are less than a
  number;
* `sizes`: sizes that must be equal: how symbolic sizes of different inputs turn out to be one;
* `values`: what a tensor of the captured function is while it is lowered.
"""

from ingot.frontends.tensorflow.lowering.entry import lower

__all__ = ["lower"]
