# SPDX-License-Identifier: Apache-2.0
"""HLO: the one IR. Shapes, instructions, computations, modules, the op table, the verifier.

The layer above, `semantics`, defines what custom calls and attributes mean to later stages.

* `operand_order`: a topological order of the instructions of one computation;
* `rewrite`: the pass base class and runner, pattern rules and their worklist driver;
* `structure`: the structure of a computation: a key by which computations that are written alike
  are equal;
* `verifier`: checks the invariants of every module, no matter which pass made it;
* `donors`: parameters whose memory results may take: input_output_alias and buffer_donor of a
  header;
* `size_definitions`: sizes that instructions define, known only while the program runs;
* `builder`: computations written as Python calls, one method per opcode of the op table;
* `opset`: the op table's rows, one file per family; `ingot.hlo.opdef` defines the fields of a row;
* `literal`: constant values, arrays or tuples of them, immutable;
* `opdef`: the op table: one declaration per opcode, from which everything else follows;
* `window`: how a box slides over dimensions, for windowed reductions and convolutions;
* `interfaces`: op interfaces: properties of ops that the rest of the compiler uses, from the op
  table;
* `instruction`: the nodes of the graph;
* `computation`: a graph of instructions with parameters and one root;
* `module`: a whole program, its entry computation and the data that callers need;
* `names`: names of instructions: valid in HLO text, unique in a module, numbered as XLA does;
* `shape`: shapes and layouts: element type, dimensions, order in memory; or a tuple of shapes;
* `dim`: symbolic sizes: a dimension is an int or a `Dim`;
* `dtype`: element types: one table of XLA's primitive types with their NumPy storage.
"""
