# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow front end: Ingot behind `jit_compile=True`.

`enable()` lets Ingot compile every function that TensorFlow would give to its own XLA. The flow:
`hook` catches a function when TensorFlow registers it, `graphs.capture` reads its graph,
`graphs.variables` binds it, and `launches.body` replaces it by a launch op. The first launch lowers
the graph to HLO (`lowering`) and compiles it (`compiler`); from then on `launches.launch_code` runs
machine code.

The packages and files, importers first:

* `hook`: catches functions as TensorFlow registers them, and gives them bodies;
* `export`: compiled programs for people and for files;
* `functions`: the functions that TensorFlow registered, with Ingot's bodies in their place;
* `clustering`: auto-clustering: compiles parts of graphs that nobody marked;
* `tracing`: help for TensorFlow's tracing: gradients, known tensors and lists;
* `eager`: machine code from EagerTensors to EagerTensors;
* `compiler`: from a captured function to a compiled program, when a launch first runs;
* `launches`: the launch op, in Python and in machine code;
* `lowering`: captured functions to HLO, one small rule per op;
* `variants`: what a function is compiled for, and when it is compiled again;
* `partitioning`: which nodes are compiled, which stay with TensorFlow, and the cut between them;
* `graphs`: captured functions as plain records;
* `api`: TensorFlow itself, as Ingot uses it.

Example:
    >>> import ingot.tensorflow
    >>> ingot.tensorflow.is_enabled()
    False
"""

from ingot.frontends.tensorflow.export.compiler_ir import executables, specialisations
from ingot.frontends.tensorflow.hook import disable, enable, is_enabled

__all__ = ["disable", "enable", "executables", "is_enabled", "specialisations"]
