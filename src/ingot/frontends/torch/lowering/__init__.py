# SPDX-License-Identifier: Apache-2.0
"""ATen graphs to HLO: `lower(piece, name) -> Lowered`.

One small rule per op, in tables by family; `rules` merges them. A rule is a function of the op and
of its arguments, in the order and by the names of PyTorch's schema.
"""

from ingot.frontends.torch.lowering.graph import lower

__all__ = ["lower"]
