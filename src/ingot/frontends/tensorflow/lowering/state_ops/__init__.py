# SPDX-License-Identifier: Apache-2.0
"""Variables, and the optimizers that write them.

* `variables`: reads and writes become values threaded through the walk in `Frame.state`;
* `optimizers`: Optimizer steps as single ops: `ResourceApply*`, as TensorFlow 1 and Keras 2
  optimizers emit;
* `sparse_optimizers`: Optimizer steps on rows of variables: `ResourceSparseApply*`, as gradients of
  embeddings give.
"""
