# SPDX-License-Identifier: Apache-2.0
"""Ingot beside XLA, on this machine: `make bench`, or `python -m benchmarks --help`.

`programs` says what is run, `jax_programs` and `tensorflow_programs` spell it in each framework,
`engines` compiles and calls it, `worker` is one process with one engine and a number of threads,
`compare` takes the engines in turn, `report` and `plot` show what came out. `jax_whole` and
`tf_whole` run whole models of users (`make bench-jax`, `make bench-tf`).
"""
