# SPDX-License-Identifier: Apache-2.0
"""Convolutions of signals: one image of one channel, one feature, one dimension, stride 1.

Where such a convolution has no padding, result p is the sum of signal[p + k] * taps[k]: a product
of the taps with a matrix whose rows overlap in memory. So it runs as products do, in code that the
library has (`kernel.contraction.product`), its lanes along the results.

Read by the pass that takes padding out of them (`passes.simplify.convolutions`) and by the choice
of kernels (`kernel.convolution.build`).
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes


def is_signal(convolution: Instruction) -> bool:
    """Whether a convolution is one of signals, padded or not."""
    given = convolution.as_(ConvolutionAttributes)
    if len(given.window) != 1 or given.feature_group_count * given.batch_group_count != 1:
        return False
    (one,) = given.window
    lhs, rhs = (item.shape.dims for item in convolution.operands)
    labels = given.labels
    sizes = (lhs[labels.lhs.index("b")], lhs[labels.lhs.index("f")], rhs[labels.rhs.index("o")])
    is_plain = one.stride == one.base_dilation == 1 and 0 not in (*lhs, *rhs)
    return is_plain and sizes == (1, 1, 1)


def is_slid(convolution: Instruction) -> bool:
    """Whether a convolution is a product of taps with overlapping rows of a signal."""
    (one, *_) = convolution.attributes.window or (None,)
    return (
        one is not None and is_signal(convolution) and one.low == one.high == 0 and not one.reversal
    )
