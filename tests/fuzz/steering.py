# SPDX-License-Identifier: Apache-2.0
"""What generators should aim at: what no random program has reached yet (`tests.fuzz.reach`).

The parent of a campaign sums up what its workers reached and sends each new one the rest. A
generator that can aim (`targets/rule_programs`) takes from here; others are not steered.
"""

from __future__ import annotations

UNREACHED: tuple[str, ...] = ()
"""Names of rules, passes, strategies and templates, set by `worker`."""
