# SPDX-License-Identifier: Apache-2.0
"""Random ops, with the numbers that TensorFlow's own kernels draw.

A generator (`philox`, `threefry`) gives bits as a function of key and counter; the other files make
the numbers of a distribution from them, in the order in which TensorFlow's kernels take them.

* `random`: random ops with TensorFlow's own numbers;
* `binomial`: numbers of the binomial distribution, TensorFlow's own: by the loop of
  `poisson`;
* `poisson`: numbers of the Poisson distribution, TensorFlow's own;
* `gamma`: numbers of the gamma distribution, TensorFlow's own;
* `parameters`: random numbers whose distribution has parameters: as many numbers for each of them
  as asked for;
* `picks`: random picks with TensorFlow's own numbers: shuffles, and draws from categories;
* `truncated`: normal numbers between two bounds, each batch with parameters of its own;
* `philox`: TensorFlow's Philox 4x32-10 and its conversions, as HLO integer ops over an iota;
* `threefry`: random numbers of the ThreeFry algorithm, as TensorFlow's XLA makes them;
* `worker_shares`: how many rows TensorFlow's kernels give to a worker thread at a time.
"""
