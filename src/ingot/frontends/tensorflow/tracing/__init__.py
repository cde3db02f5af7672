# SPDX-License-Identifier: Apache-2.0
"""Help for TensorFlow's tracing: gradients of compiled functions, known tensors and lists.

The files, importers first:

* `gradients`: how TensorFlow builds the gradients of functions that Ingot compiles;
* `known_lists`: the lengths and element shapes of TensorLists that are known while tracing;
* `known_tensors`: values of tensors that are known while tracing: constants, static shapes, ...
"""
