# SPDX-License-Identifier: Apache-2.0
"""TensorLists and TensorArrays: lists of tensors as buffers with a count.

* `state`: TensorLists as the state of loops and the results of branches: counted, with room to
  grow;
* `checks`: what TensorFlow checks of TensorLists: shapes of elements, indices and lengths;
* `pieces`: TensorLists and the tensor that their elements make end to end: `TensorArray.split`,
  concat;
* `nested_lists`: lists of lists between programs: the elements of all lists end to end, and how
  many each has;
* `tensor_lists`: the buffers behind TensorArray, and what gradients of loops push and pop;
* `resource_arrays`: stacks and TensorArrays that are resources: what TensorFlow 1 has in place of
  TensorLists.
"""
