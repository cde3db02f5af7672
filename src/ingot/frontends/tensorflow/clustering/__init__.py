# SPDX-License-Identifier: Apache-2.0
"""Auto-clustering: parts of graphs that nobody marked with `jit_compile=True`, compiled by Ingot.

`api.xla_flags` reads `TF_XLA_FLAGS`; `requests` knows who asks for clustering (flags, `set_jit`,
sessions, `jit_scope`). `plugin` is the Grappler plug-in that TensorFlow hands each graph to. In it,
`graph` and `liveness` describe the graph, `candidates` and `clusters` choose what is compiled
together, and `rewriting` replaces each cluster by a launch, next to TensorFlow's own kernels, which
run until `cluster_function` has compiled it.

The other files, importers first:

* `experimental_compile`: tf.xla.experimental.compile: compiles a computation as one function;
* `grappler_item`: the fetched nodes, kept nodes and shapes that Grappler reports for a graph;
* `keras_models`: a note on models that Keras leaves uncompiled (`jit_compile="auto"`, no GPU);
* `optimizer`: the optimizer that the plug-in calls: finds clusters, names them, writes launches;
* `xla_ops`: `Xla*` ops outside compiled functions, whose kernels call the built-in XLA;
* `background`: compiles a cluster in the background once it has run long enough to be worth it;
* `debug_graphs`: graphs before and after clustering, as files with XLA's names;
* `cycles`: a graph whose edges are contracted and that stays acyclic;
* `placing`: the inputs, outputs and copied constants of a cluster in its graph;
* `fused_ops`: takes apart the ops that Grappler's remapper fused for TensorFlow's kernels;
* `old_functions`: TensorFlow 1's `Defun(compiled=True)`;
* `marks`: the node attributes that ask for clustering, and the one that marks its results.
"""
