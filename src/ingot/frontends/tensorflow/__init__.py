# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow front end: Ingot behind `jit_compile=True`.

`enable()` lets Ingot compile every function that TensorFlow would give to its own XLA. The flow:
`hook` catches a function when TensorFlow registers it, `capture` reads its graph, `variables`
binds it, `body` replaces it by a launch op; the first launch lowers it to HLO (`lowering`) and
compiles it (`client`), and from then on `launch_code` runs machine code.

The other files, those that import others first:

* `frozen_graphs`: a frozen GraphDef with tfcompile's config as a module;
* `saved_models`: models in files as modules: a SavedModel's signature, a `.keras` file;
* `compiler_ir`: what was compiled, for people: experimental_get_compiler_ir, and all executables by
  name;
* `fast_call`: eager calls of compiled functions without TensorFlow's dispatch;
* `freezing`: from a TensorFlow function to a module that stands alone, with its variables as
  constants;
* `gradients`: how TensorFlow builds the gradients of functions that Ingot compiles;
* `profiling`: TensorFlow's profiler shows our kernels: tf.profiler, and Keras' callback for
  TensorBoard;
* `ready_code`: the kernel of `Ingot_XlaCompile`: whether a launch has a program for the inputs;
* `variable_code`: direct access to variables by native functions: read without a copy, write in
  place;
* `call_keys`: what the arguments of an eager call say about which concrete function it is for;
* `ir_forms`: how experimental_get_compiler_ir writes the stages that are no text of
  `Executable.as_text`;
* `known_lists`: what is known of a TensorList while TensorFlow traces: its length, its elements'
  shape;
* `replacement`: replaced functions: what TensorFlow registered, what runs instead, and switching
  between them;
* `staged_launch_code`: how the launch op runs a program of stages: its results are tensors that the
  stages made;
* `compiler`: from a captured function to a compiled program: what a launch calls at its first
  execution;
* `dropped_launches`: launches whose functions are gone: what they were compiled to is let go;
* `failure_texts`: TensorFlow's own words for a check that failed while a compiled function ran;
* `host_report`: what the user is told when a part of a function stays with TensorFlow;
* `hosting`: bodies of functions with nodes that stay with TensorFlow: launches, and the nodes
  between them;
* `known_tensors`: tensors of graphs that are known while TensorFlow traces: constants, static
  shapes, and so on;
* `list_arguments`: lists that a program is given and that are no single array: TensorFlow keeps
  them;
* `one_op`: functions that are a single launch op, run eagerly without TensorFlow's function
  runtime;
* `run_again_code`: how the launch op runs a program that may end for lack of room, to be run again
  with more;
* `variable_test`: the self-test of direct access to variables: a small program on real variables,
  once;
* `constant_folding`: nodes that only the host can do, but whose operands are constants: they are
  done once, now;
* `launch_writer`: writes a launch into a body: reads, one launch, writes;
* `list_forms`: lists of lists that compiled code made, for functions that TensorFlow runs itself;
* `native_calls`: the native calls of one function: machine code from EagerTensors to EagerTensors;
* `partition`: cuts a function at the nodes that stay with TensorFlow: what lies between them are
  parts;
* `stored_programs`: programs on the disk by the graph that they were made of: one that is found is
  not lowered;
* `clustering`: auto-clustering: parts of graphs that nobody marked with `jit_compile=True`,
  compiled by Ingot;
* `eager_call`: Python's side of the eager fast path: a built-in callable for one signature of one
  function;
* `list_shapes`: what TensorFlow says of the elements of a list that a function gives back;
* `eager_code`: the machine code of the eager fast path: EagerTensors in, EagerTensors out, no
  TensorFlow op;
* `launch_op`: registration of the launch ops with TensorFlow, once per process;
* `patching`: the names of TensorFlow that Ingot replaces, each checked before it is replaced;
* `placement`: which nodes of a function stay with TensorFlow: ops that only the host can do;
* `eager_api`: what the machine code of the eager fast path calls of TensorFlow, and what it is
  linked to;
* `launch`: one record per replaced function, filled with compiled variants on demand;
* `launch_runs`: how the launch op runs an ordinary program: allocate its outputs, and execute;
* `launch_variants`: which program the kernel of a launch op runs: the one for the sizes and values
  of its inputs;
* `list_groups`: which lists of a function that is cut are compiled: those that only compiled loops
  have in hand;
* `op_families`: which TensorFlow ops are compiled, and the family of rules that each belongs to;
* `variable_access`: whether direct access to variables is safe here, and which functions may use
  it;
* `launch_inputs`: what the kernels of the launch ops do first and last: read the op's inputs,
  report a failure;
* `proto_values`: the values in TensorFlow's protos as plain ones: attributes, shapes, element
  types;
* `recompilations`: what the user is told when a function is compiled again;
* `old_calls`: calls of TensorFlow 1's functions, nodes whose op is the function's name, made calls
  by name;
* `symbolic_gradient`: what a `SymbolicGradient` node calls: the gradient of a function, made where
  it is captured;
* `trampolines`: functions of Python that the launch op calls, as native functions declare them;
* `variable_objects`: TensorFlow's variables and tensors as C structs, and the C++ functions that
  work on them;
* `errors`: from Ingot's errors to TensorFlow's, text and all;
* `kernel_api`: what native functions of TensorFlow's kernels call, as they declare it;
* `launch_records`: what machine code and Python share about launches: records and texts;
* `list_types`: what the lists of a function hold that enter or leave it: lists, and of what;
* `random_state`: the state of random ops that keep it inside the node: a hidden variable of the
  function;
* `specialisation`: what a function is specialised on: values and sizes of the call that it is
  compiled for;
* `capi`: TensorFlow's C API as Ingot uses it: where the symbols are and what they take;
* `graph_digest`: digests of captured graphs: what a function's stored program is named by
  (`stored_programs`);
* `list_rooms`: room for lists that grow in loops, learnt from calls that had too little;
* `locations`: where in the user's own program a graph node was made;
* `binding`: how the entry computation of a lowered function meets the function's inputs and
  outputs;
* `series`: the series of TensorFlow that the front end is tested with, and what differs between
  them;
* `captured`: what the bridge captured of a TensorFlow function, as plain Python and NumPy values;
* `modules`: TensorFlow's own modules, loaded once, typed `Any`: the border to an untyped library.

Example:
    >>> import ingot.tensorflow
    >>> ingot.tensorflow.is_enabled()
    False
"""

from ingot.frontends.tensorflow.compiler_ir import executables, specialisations
from ingot.frontends.tensorflow.hook import disable, enable, is_enabled

__all__ = ["disable", "enable", "executables", "is_enabled", "specialisations"]
