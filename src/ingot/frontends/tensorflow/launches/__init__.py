# SPDX-License-Identifier: Apache-2.0
"""The launch op: what runs in place of a function's graph, in Python and in machine code.

`launch_writer` writes a body with one launch op. When the op runs, `launch_code` finds the variant
for its inputs and runs it; if there is none, `launch` has one compiled.

The files, importers first:

* `variable_test`: the self-test of direct access to variables, run once per installation;
* `launch_writer`: writes a launch into a body: reads, one launch, writes;
* `launch_op`: registration of the launch ops with TensorFlow, once per process;
* `launch_code`: the machine code of the launch op: what TensorFlow calls to run a compiled
  function;
* `variable_code`: direct access to variables by native functions: read without a copy, write in
  place;
* `staged_launch_code`: runs a program of several stages, whose results are tensors they made;
* `run_again_code`: runs a program whose buffers may prove too small, again with larger ones;
* `launch_runs`: runs an ordinary program: allocates its outputs and executes;
* `ready_code`: the kernel of `Ingot_XlaCompile`: whether there is a program for these inputs;
* `launch_variants`: looks up the program for the sizes and values of the inputs;
* `launch_inputs`: reads the op's inputs, and reports a failure;
* `body`: the body that replaces a TensorFlow function: one launch (`launch_writer`), or several;
* `launch`: launches: one record per replaced function, filled with compiled variants on demand;
* `trampolines`: the Python functions that the launch op calls, as native declarations;
* `launch_records`: records and texts that machine code and Python share.
"""
