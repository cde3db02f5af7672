# SPDX-License-Identifier: Apache-2.0
"""Code that compiled programs call but Ingot did not generate: registered custom-call targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.runtime.foreign.register import register_custom_call_target

__all__ = ["register_custom_call_target"]

__getattr__ = names_at_home(__name__, {"register_custom_call_target": ".register"})
