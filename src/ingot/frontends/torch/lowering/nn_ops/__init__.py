# SPDX-License-Identifier: Apache-2.0
"""Layers of neural networks: convolutions, pools, resampling, norms, attention, embedding bags.

* `convolution`: convolutions of one to three dimensions, transposed ones, and their gradients;
* `pooling`: pools with windows: maximum with indices, average; and their gradients;
* `adaptive_pooling`: adaptive pools, whose windows follow from the sizes: averages, maxima with
  indices, gradients;
* `adaptive_windows`: adaptive windows along an axis of symbolic size: sums and greatest, loops over
  the taps;
* `padding`: gradients of padding that repeats the border elements;
* `resampling`: upsampling: nearest, linear, cubic, antialiased, in one to three dimensions;
* `open_resampling`: resampling along an axis of symbolic size: indices and weights are computed at
  run time;
* `grid_sampling`: sampling of images at computed coordinates (grid_sample), in two and three
  dimensions;
* `normalization`: batch, layer and group normalization, and their gradients;
* `attention`: scaled dot-product attention and its gradient, as products around a softmax;
* `embedding_bag`: bags of embeddings: the rows of each bag are summed or averaged, or the maxima;
* `columns`: col2im, the gradient of im2col: the elements of all windows are added at their places;
* `fused_layers`: PyTorch's fused layers of inference: a whole transformer encoder layer, an LSTM
  layer.
"""
