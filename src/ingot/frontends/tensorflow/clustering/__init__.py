# SPDX-License-Identifier: Apache-2.0
"""Auto-clustering: parts of graphs that nobody marked with `jit_compile=True`, compiled by Ingot.

`flags` reads `TF_XLA_FLAGS`, `requests` knows who asks for clustering (flags, `set_jit`, sessions,
`jit_scope`), `plugin` is the Grappler plug-in that TensorFlow gives each graph to. There `graph`
and `liveness` describe the graph, `candidates` and `clusters` choose what is compiled together,
`rewriting` puts a launch (and TensorFlow's own kernels beside it until it is compiled) in the
place of each cluster, and `cluster_function` compiles it.
"""
