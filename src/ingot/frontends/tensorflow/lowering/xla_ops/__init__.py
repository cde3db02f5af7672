# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's `Xla*` ops, by which a program asks for HLO instructions by name.

* `instructions`: TensorFlow's own `Xla*` ops: HLO instructions that a program asks for by name;
* `calls`: `Xla*` ops that call functions: reductions, windows, sorts, scatters, branches, loops;
* `grids`: grids of equal blocks: tensors and variables put together from shards, and cut into them;
* `modules`: `XlaCallModule`: a StableHLO program inside a TensorFlow function, as JAX's jax2tf
  makes it;
* `products`: `Xla*` products and convolutions, with dimension numbers and precision as HLO has
  them.
"""
