# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled pieces: from PyTorch's tensors to PyTorch's tensors.

* `wrapper`: the Python function that runs all steps of a call;
* `launch`: a compiled piece as a node's function: compiled at the first call;
* `call_code`: the way from a call in Python into machine code;
* `errors`: errors of running programs for PyTorch's users: Ingot's text, PyTorch's class;
* `masks`: masks of writes whose sizes only a call can compare with the tensor's:
  `open_masks(nodes)`.
"""
