# SPDX-License-Identifier: Apache-2.0
"""The functions of the PJRT C API that are Python, called through `trampolines`.

The files, importers first:

* `executable`: compilation and executables;
* `alias`: buffers that take over another buffer's memory, now or later;
* `asynchronous`: asynchronous transfers: transfer managers, and copies to a later target;
* `client`: plugin, client, devices and topology;
* `transfer`: buffers made in unusual ways, and layouts that are not row-major;
* `extensions`: the extensions for layouts and shardings;
* `profiler`: the profiler extension: `jax.profiler.trace` shows Ingot's kernels by name;
* `slots`: slots as methods, decorated with the functions of the C API that they implement.
"""
