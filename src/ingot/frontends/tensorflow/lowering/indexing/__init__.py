# SPDX-License-Identifier: Apache-2.0
"""Elements at computed indices: gathers, scatters, checks of indices, and strided slices.

Arrays, lists, sparse tensors and variables all take elements so.

* `index_checks`: checks of indices: one out of range ends the program, as in TensorFlow's kernels
  for CPU;
* `gather`: elements or slices taken at computed indices, and the coordinates of elements;
* `scatter`: scatters and segment reductions: updates combined into computed indices;
* `strided`: what a StridedSlice means: its masks resolved against the operand's dimensions.
"""
