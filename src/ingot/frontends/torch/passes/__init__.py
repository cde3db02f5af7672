# SPDX-License-Identifier: Apache-2.0
"""Passes over PyTorch's graphs, before they are cut into pieces and lowered.

They make ops of a graph into ops that have rules, keep random draws in PyTorch's order, save what a
later node needs, and drop or add checks.

* `expansion`: expanding nodes into their definitions: `expand_attention(graph_module)` and
  expand_bags;
* `fixed_bags`: embedding bags that all have the same length, as plain lookups and sums: `BAGS`;
* `data_sizes`: ops whose results have a size that data decides, in programs:
  `expand_data_sizes(graph)`;
* `slice_lengths`: lengths of slices whose bounds data decides, as numbers:
  `number_slice_lengths(graph)`;
* `stacked_loops`: loops that save the state of each iteration: `expand_stacked_loops(graph)`;
* `scan_invariants`: rows of a scan that are the same in each step:
  `share_invariants(joint_module)`;
* `kernel_sizes`: guards for sizes that PyTorch's kernels need to be equal:
  `guard_kernel_sizes(graph)`;
* `metadata_checks`: checks of what is known when a graph is compiled:
  `drop_metadata_checks(graph)`;
* `merged_numbers`: recomputing the values of nodes that have an undefined symbol:
  `renew_values(graph)`;
* `random_ops`: random draws of a graph: each by itself (keeps_draws_apart), of sizes (free_draws);
* `python_numbers`: floats that Python's random draws as a program runs:
  `full_precision(graph_module, inputs)`;
* `mutated_inputs`: what is computed from an argument that the program writes is saved:
  `saves_written(forward)`;
* `writing_ops`: ops of libraries that write into their arguments (torch.library, mutates_args);
* `triton_kernels`: errors for the user's Triton kernels (torch.library.triton_op, wrap_triton),
  which need GPUs.
"""
