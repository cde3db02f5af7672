# SPDX-License-Identifier: Apache-2.0
"""Auto-clustering: parts of graphs that nobody marked with `jit_compile=True`, compiled by Ingot.

`flags` reads `TF_XLA_FLAGS`, `requests` knows who asks for clustering (flags, `set_jit`, sessions,
`jit_scope`), `plugin` is the Grappler plug-in that TensorFlow gives each graph to. There `graph`
and `liveness` describe the graph, `candidates` and `clusters` choose what is compiled together,
`rewriting` puts a launch (and TensorFlow's own kernels beside it until it is compiled) in the
place of each cluster, and `cluster_function` compiles it.

The other files, those that import others first:

* `experimental_compile`: tf.xla.experimental.compile: a computation as a function that Ingot
  compiles whole;
* `grappler_item`: what Grappler's plug-in interface tells of a graph: fetched nodes, kept nodes,
  shapes;
* `keras_models`: a word for models that Keras leaves uncompiled: its `jit_compile="auto"` is False
  without a GPU;
* `optimizer`: what happens to a graph: clusters are found, named, given launches and written in
  their place;
* `xla_ops`: `Xla*` ops outside of compiled functions, whose kernels have the built-in XLA compile
  them;
* `background`: when a cluster is compiled: in the background, once it has run long enough to be
  worth it;
* `debug_graphs`: graphs before and after clustering, written under XLA's names for people and
  TensorBoard;
* `cycles`: a graph whose edges are contracted, and that stays free of cycles;
* `placing`: a cluster in its graph: what goes in, what comes out, which constants it has copies of;
* `fused_ops`: ops that Grappler's remapper fused for TensorFlow's kernels, taken apart again;
* `old_functions`: TensorFlow 1's functions: `Defun(compiled=True)` asks to compile the calls of a
  function;
* `marks`: the attributes by which a node asks to be clustered, and the one of what clustering made.
"""
