# SPDX-License-Identifier: Apache-2.0
"""Ingot beside XLA, on this machine: `make bench`, or `python -m benchmarks --help`.

`__main__` is `make bench`: single ops and small programs. The others, with their targets of `make`:

* `with_jax`, `with_tensorflow`, `with_torch`: whole models as users of a framework write them
  (`bench-jax`, `bench-tf`, `bench-torch`);
* `distributed`: collectives and divided programs (`bench-devices`, `network-model`);
* `kernels`: single kernels beside libraries, a GPU's and the machine's limits (`bench-libraries`,
  `bench-gpu`, `roofline`);
* `processes`: whole processes, ahead-of-time programs, compile times (`bench-cold`, `bench-aot`,
  `scaling`);
* `ops`: the ops and small programs of `make bench` and `bench-ops`, in each framework;
* `common`: what they share. `programs` defines a measured program, `engines` compiles and calls it,
  `worker` is one process with one engine and a number of threads, `compare` takes the engines in
  turn, `whole` does that for models, `report` and `plot` show the results.

The result pages are in this folder.
"""
