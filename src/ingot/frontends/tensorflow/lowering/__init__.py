# SPDX-License-Identifier: Apache-2.0
"""TensorFlow functions to HLO: `lower(captured, binding, name) -> LoweredFunction`.

Reads `CapturedFunction` (plain records, no TensorFlow object), writes a `Module` whose entry
follows the `Binding`. One small rule per op type, in tables by family; `rules` merges them.
"""

from ingot.frontends.tensorflow.lowering.entry import lower

__all__ = ["lower"]
