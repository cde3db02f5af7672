# SPDX-License-Identifier: Apache-2.0
"""TensorFlow itself, as Ingot uses it: modules, C API, kernels, errors and names that are replaced.

Nothing here knows what Ingot compiles. `series` holds what differs between releases of TensorFlow.

The files, importers first:

* `xla_flags`: `TF_XLA_FLAGS`, with TensorFlow's names, types and defaults;
* `variable_objects`: TensorFlow's variables and tensors as C structs, and the C++ functions that
  work on them;
* `profiling`: shows Ingot's kernels in TensorFlow's profiler and Keras' TensorBoard callback;
* `patching`: the names of TensorFlow that Ingot replaces, each checked before it is replaced;
* `kernel_api`: TensorFlow's C functions for kernels, as native functions declare them;
* `errors`: translates Ingot's errors to TensorFlow's, text included;
* `locations`: the line of the user's program that made a graph node;
* `capi`: TensorFlow's C API as Ingot uses it: where the symbols are and what they take;
* `series`: the series of TensorFlow that the front end is tested with, and what differs between
  them;
* `call_keys`: the key of an eager call's arguments, which selects the concrete function;
* `modules`: TensorFlow's own modules, loaded once, typed `Any`: the border to an untyped library.
"""
