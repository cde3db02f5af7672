# SPDX-License-Identifier: Apache-2.0
"""`import ingot.tensorflow`: the public name of the TensorFlow front end."""

from ingot.support.collector import importing

# Beside TensorFlow's heap a collection takes 0.2 s.
with importing():
    from ingot.frontends.tensorflow import disable, enable, executables, is_enabled, specialisations
    from ingot.frontends.tensorflow.freezing import frozen_module

__all__ = [
    "disable",
    "enable",
    "executables",
    "frozen_module",
    "is_enabled",
    "specialisations",
]
