# SPDX-License-Identifier: Apache-2.0
"""`import ingot.tensorflow`: the public name of the TensorFlow front end."""

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
