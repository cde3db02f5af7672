# SPDX-License-Identifier: Apache-2.0
"""The buffer allocator, as native functions, and NumPy's view of it.

* `allocator`: the caching buffer allocator as native functions: ingot_allocate, ingot_free,
  ingot_trim;
* `array_memory`: NumPy's view of our allocator: the four functions of a NumPy memory handler,
  native.
"""
