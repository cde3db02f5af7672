# SPDX-License-Identifier: Apache-2.0
"""One-dimensional convolutions: batch 1, one channel, one feature, one dimension, stride 1.

Without padding, result p is the sum of input[p + k] * filter[k]: the product of the filter with a
Toeplitz matrix, whose rows overlap in memory. So the library's code for products runs it
(`kernel.product.product`), with lanes along the results.

Read by the pass that moves padding out of them (`passes.simplify.convolutions.canonicalizer`) and
by the choice of kernels (`kernel.convolution.build`).
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes


def is_conv1d(convolution: Instruction) -> bool:
    """Whether a convolution is such a one, padded or not."""
    given = convolution.as_(ConvolutionAttributes)
    if len(given.window) != 1 or given.feature_group_count * given.batch_group_count != 1:
        return False
    (one,) = given.window
    lhs, rhs = (item.shape.dims for item in convolution.operands)
    labels = given.labels
    sizes = (lhs[labels.lhs.index("b")], lhs[labels.lhs.index("f")], rhs[labels.rhs.index("o")])
    is_plain = one.stride == one.base_dilation == 1 and 0 not in (*lhs, *rhs)
    return is_plain and sizes == (1, 1, 1)


def is_toeplitz_product(convolution: Instruction) -> bool:
    """Whether a convolution is a product of its filter with overlapping rows of its input."""
    (one, *_) = convolution.attributes.window or (None,)
    return (
        one is not None and is_conv1d(convolution) and one.low == one.high == 0 and not one.reversal
    )
