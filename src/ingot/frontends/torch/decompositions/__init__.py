# SPDX-License-Identifier: Apache-2.0
"""Definitions of ATen ops by simpler ones, which AOTAutograd applies while it traces.

* `decompose`: the table of decompositions that AOTAutograd applies, and the ops that it keeps;
* `compositions`: ops as compositions of others: histogram, ormqr, fractional pools, grids, a loss;
* `foreach`: optimizers' ops over lists of tensors, as ops of one tensor;
* `quantization`: quantization as arithmetic: decompositions of `quantized_decomposed.*` and
  `fake_quantize_*`;
* `refused_values`: decompositions of ops whose kernels refuse some values: those of PyTorch, with
  its assertions;
* `segments`: segment_reduce and its gradient as plain ops: each row searches for its segment;
* `windows`: window functions, and the frequencies of Fourier transforms, as arithmetic of an
  arange;
* `recurrent`: recurrent layers (nn.RNN, `GRU`, `LSTM`) as loops: `recurrent_layers_as_loops()`.
"""
