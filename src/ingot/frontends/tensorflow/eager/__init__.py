# SPDX-License-Identifier: Apache-2.0
"""The eager fast path: from EagerTensors to EagerTensors in machine code, with no TensorFlow op.

`functions.fast_call` uses it where a compiled function is called outside any graph.

The files, importers first:

* `native_calls`: the native calls of one function, made on demand;
* `eager_call`: a built-in callable for one signature of one function;
* `eager_code`: the machine code behind that callable;
* `eager_api`: the TensorFlow functions that this code calls and is linked to.
"""
