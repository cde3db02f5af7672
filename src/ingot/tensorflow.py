"""`import ingot.tensorflow`: the public name of the TensorFlow front end."""

from ingot.frontends.tensorflow import disable, enable, executables, is_enabled, specialisations

__all__ = ["disable", "enable", "executables", "is_enabled", "specialisations"]
