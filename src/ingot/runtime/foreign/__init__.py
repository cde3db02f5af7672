# SPDX-License-Identifier: Apache-2.0
"""Code that compiled programs call but Ingot did not generate: registered custom-call targets."""

from ingot.runtime.foreign.register import register_custom_call_target

__all__ = ["register_custom_call_target"]
