# SPDX-License-Identifier: Apache-2.0
"""Which nodes are compiled, which stay with PyTorch, and the cut between them.

* `placement`: which nodes of a graph are compiled, and why the others are not;
* `partition`: cuts a graph into pieces of compiled nodes;
* `views`: views that leave a graph: `views_of(graph, host)`, between `placement` and `partition`;
* `saved_layouts`: layouts of tensors that the forward program saves for the backward one:
  `saved_layouts`.
"""
