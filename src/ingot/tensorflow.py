# SPDX-License-Identifier: Apache-2.0
"""`import ingot.tensorflow`: the public name of the TensorFlow front end."""

from typing import TYPE_CHECKING

from ingot.support.collector import importing
from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.export.freezing import frozen_module

# Beside TensorFlow's heap a collection takes 0.2 s.
with importing():
    from ingot.frontends.tensorflow import disable, enable, executables, is_enabled, specialisations

__all__ = [
    "disable",
    "enable",
    "executables",
    "frozen_module",
    "is_enabled",
    "specialisations",
]

__getattr__ = names_at_home(
    __name__, {"frozen_module": "ingot.frontends.tensorflow.export.freezing"}
)
