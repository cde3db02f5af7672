# SPDX-License-Identifier: Apache-2.0
"""PyTorch's graphs as Ingot reads them: nodes, sizes, element types, layouts, source locations.

* `nodes`: questions about nodes of PyTorch's graphs (torch.fx), whose values are fake tensors;
* `sizes`: sizes of PyTorch (int, `SymInt`) as sizes of HLO (int, `Dim`);
* `types`: element types of PyTorch and of HLO: one table, both ways;
* `equal_sizes`: data-dependent sizes that equal other sizes: `replaced(expression, environment)`;
* `guarded_sizes`: sizes as PyTorch's guards simplify them: `simplified(expression, environment)`;
* `layout`: the layout of a tensor in memory, and the array that a compiled program sees there;
* `locations`: source locations of a graph's nodes, for HLO's metadata and for errors;
* `constants`: tensors that a graph holds itself, as arrays that are known when a program is
  compiled;
* `piece`: the nodes of a graph that become one program, from `partitioning` to `lowering`;
* `internal_ops`: an op by which a pass of Ingot replaces ops of PyTorch in a graph.
"""
