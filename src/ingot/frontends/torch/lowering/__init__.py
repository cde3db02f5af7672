# SPDX-License-Identifier: Apache-2.0
"""ATen graphs to HLO: `lower(piece, name) -> Lowered`.

There is one small rule for each op, in tables by family, which `rules` merges. A rule is a function
of the op and its arguments, in the order and by the names of PyTorch's schema.
"""

from ingot.frontends.torch.lowering.graph import lower

__all__ = ["lower"]
