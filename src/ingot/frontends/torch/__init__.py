# SPDX-License-Identifier: Apache-2.0
"""PyTorch: `torch.compile(model, backend="ingot")`.

PyTorch traces the program (TorchDynamo), differentiates it and makes it functional (AOTAutograd).
The backend gets a graph of ATen ops over tensors of known or symbolic sizes.

`backend` takes the graphs of one call of torch.compile. PyTorch's ops are decomposed (`decompose`,
`foreach`), `placement` says which nodes are compiled, `partition` cuts the graph there into pieces,
`lowering` makes HLO of a piece, `launch` a compiled program. The Python function of `wrapper` runs
all steps; `call_code` is its way into machine code.

The other files, those that import others first:

* `coverage`: the coverage of PyTorch's core ops, as a page: docs/torch_ops.md;
* `exported`: programs of torch.export as modules: `module_of(exported)`;
* `data_sizes`: ops whose results have a size that data decides, in programs:
  `expand_data_sizes(graph)`;
* `expansion`: expanding nodes into their definitions: `expand_attention(graph_module)` and
  expand_bags;
* `graphs`: the graphs that were compiled in this process, for inspection;
* `kernel_sizes`: guards for sizes that PyTorch's kernels need to be equal:
  `guard_kernel_sizes(graph)`;
* `metadata_checks`: checks of what is known when a graph is compiled:
  `drop_metadata_checks(graph)`;
* `mutated_inputs`: what is computed from an argument that the program writes is saved:
  `saves_written(forward)`;
* `options`: the user's choices for torch.compile: its `mode=` and `options=`, as an `Options`;
* `python_numbers`: floats that Python's random draws as a program runs:
  `full_precision(graph_module, inputs)`;
* `recurrent`: recurrent layers (nn.RNN, `GRU`, `LSTM`) as loops: `recurrent_layers_as_loops()`;
* `saved_layouts`: layouts of tensors that the forward program saves for the backward one:
  `saved_layouts`;
* `scan_invariants`: rows of a scan that are the same in each step:
  `share_invariants(joint_module)`;
* `slice_lengths`: lengths of slices whose bounds data decides, as numbers:
  `number_slice_lengths(graph)`;
* `stacked_loops`: loops that save the state of each iteration: `expand_stacked_loops(graph)`,
  before `placement`;
* `triton_kernels`: errors for the user's Triton kernels (torch.library.triton_op, wrap_triton),
  which need GPUs;
* `fixed_bags`: embedding bags that all have the same length, as plain lookups and sums: `BAGS`;
* `internal_ops`: an op by which a pass of Ingot replaces ops of PyTorch in a graph;
* `masks`: masks of writes whose sizes only a call can compare with the tensor's:
  `open_masks(nodes)`;
* `writing_ops`: ops of libraries that write into their arguments (torch.library, mutates_args);
* `compositions`: ops as compositions of others: histogram, ormqr, fractional pools, grids, a loss;
* `errors`: errors of running programs for PyTorch's users: Ingot's text, PyTorch's class;
* `quantization`: quantization as arithmetic: decompositions of `quantized_decomposed.*` and
  `fake_quantize_*`;
* `random_ops`: random draws of a graph: each by itself (keeps_draws_apart), of sizes (free_draws);
* `refused_values`: decompositions of ops whose kernels refuse some values: those of PyTorch, with
  its assertions;
* `segments`: segment_reduce and its gradient as plain ops: each row searches for its segment;
* `views`: views that leave a graph: `views_of(graph, host)`, between `placement` and `partition`;
* `windows`: window functions, and the frequencies of Fourier transforms, as arithmetic of an
  arange;
* `merged_numbers`: recomputing the values of nodes that have an undefined symbol:
  `renew_values(graph)`;
* `constants`: tensors that a graph holds itself, as arrays that are known when a program is
  compiled;
* `layout`: the layout of a tensor in memory, and the array that a compiled program sees there;
* `locations`: source locations of a graph's nodes, for HLO's metadata and for errors;
* `piece`: the nodes of a graph that become one program, from `partition` to lower;
* `nodes`: questions about nodes of PyTorch's graphs (torch.fx), whose values are fake tensors;
* `sizes`: sizes of PyTorch (int, `SymInt`) as sizes of HLO (int, `Dim`);
* `types`: element types of PyTorch and of HLO: one table, both ways;
* `guarded_sizes`: sizes as PyTorch's guards simplify them: `simplified(expression, environment)`;
* `equal_sizes`: data-dependent sizes that equal other sizes: `replaced(expression, environment)`.

Invariant: results have the values, sizes, strides and element types that PyTorch's own kernels
give, and random numbers come from PyTorch's generator in its order.
"""
