# SPDX-License-Identifier: Apache-2.0
"""Front ends: each turns one framework's programs into modules and runs what comes back.

* `jax`: JAX on Ingot: `JAX_PLATFORMS=ingot python any_jax_program.py`;
* `loading`: ingot.load: a module from a file, from bytes, or from what a framework exports;
* `tensorflow`: the TensorFlow front end: Ingot behind `jit_compile=True`;
* `torch`: PyTorch: `torch.compile(model, backend="ingot")`;
* `building`: what the front ends share when they write HLO: idioms of arrays, and special
  functions.
"""
