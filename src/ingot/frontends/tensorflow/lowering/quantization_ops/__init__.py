# SPDX-License-Identifier: Apache-2.0
"""Quantized numbers: integers that stand for floats of a range.

* `quantization`: quantisation by a range, to integers and back, or at once to floats of 2^bits
  values;
* `uniform`: uniformly quantised integers: value = (integer - zero point) * scale, per tensor or per
  axis.
"""
