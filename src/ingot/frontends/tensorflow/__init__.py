# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow front end: Ingot behind `jit_compile=True`.

`enable()` lets Ingot compile every function that TensorFlow would give to its own XLA. The flow:
`hook` catches a function when TensorFlow registers it, `capture` reads its graph, `variables`
binds it, `body` replaces it by a launch op; the first launch lowers it to HLO (`lowering`) and
compiles it (`client`), and from then on `launch_code` runs machine code.

Example:
    >>> import ingot.tensorflow
    >>> ingot.tensorflow.is_enabled()
    False
"""

from ingot.frontends.tensorflow.compiler_ir import executables, specialisations
from ingot.frontends.tensorflow.hook import disable, enable, is_enabled

__all__ = ["disable", "enable", "executables", "is_enabled", "specialisations"]
