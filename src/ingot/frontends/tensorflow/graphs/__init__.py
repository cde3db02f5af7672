# SPDX-License-Identifier: Apache-2.0
"""Captured functions: graphs, variables, lists and random state, as plain records.

`capture` reads a graph into the records of `captured`; `binding` maps the function's
inputs and outputs to the compiled program's. What follows needs no TensorFlow object.

The files, importers first:

* `variables`: which inputs a function reads and writes, and the binding that follows;
* `variable_access`: whether native code may access variables directly, and for which functions;
* `random_state`: the hidden variable for random ops that keep their state in the node;
* `list_types`: element types of the lists that enter or leave a function;
* `list_shapes`: the element shape that TensorFlow reports for a list that a function returns;
* `graph_digest`: digests of captured graphs, the names of stored programs;
* `capture`: from a TensorFlow FuncGraph to a `CapturedFunction`: plain records, made once;
* `old_calls`: calls of TensorFlow 1's functions, nodes whose op is the function's name, made calls
  by name;
* `symbolic_gradient`: the gradient function that a `SymbolicGradient` node calls;
* `proto_values`: attributes, shapes and element types in TensorFlow's protos, as plain values;
* `binding`: how the entry computation of a lowered function meets the function's inputs and
  outputs;
* `captured`: the records of a captured function, in Python and NumPy values.
"""
