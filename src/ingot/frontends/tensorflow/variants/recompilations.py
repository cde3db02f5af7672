# SPDX-License-Identifier: Apache-2.0
"""What the user is told when a function is compiled again.

Every further compilation of a function is logged with the values and sizes that it is for
(`INGOT_DEBUG=1`). A function that is compiled again and again for values of one argument is slow
without looking so: after a while a warning names the argument, its values and the line that needs
them, as TensorFlow warns of repeated tracing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ingot.frontends.tensorflow.api.errors import function_text
from ingot.frontends.tensorflow.variants.specialisation import Key
from ingot.support.observing import COMPILED_AGAIN, Observation, note
from ingot.support.tracing import Level, log

_logger = logging.getLogger("ingot.tensorflow")

WARN_AT = frozenset({8, 32, 128, 512})
"""Numbers of specialised programs of one function at which a warning is given."""

_SHOWN = 5


def report_recompilation(name: str, before: Sequence[Key], key: Key) -> None:
    """Tell that the function `name` was compiled for `key`, after it was compiled for `before`."""
    if before or key.is_special:
        is_known = any(item.ranks == key.ranks for item in before)
        other = "more room for lists that grow" if is_known else "inputs of other ranks"
        why = "; ".join(key.explain()) or other
        log(
            Level.COMPILATION,
            "tensorflow.specialised",
            function=name,
            program=len(before) + 1,
            on=why,
        )
        if before:
            note(Observation(COMPILED_AGAIN, function_text(name), key.explain() or (other,)))
    special = [*(item for item in before if item.is_special), key]
    if key.is_special and len(special) in WARN_AT:
        _logger.warning("%s", _warning(name, special))


def _warning(name: str, keys: Sequence[Key]) -> str:
    lines = [f"Ingot: {function_text(name)} was compiled {len(keys)} times, for other values each:"]
    seen: dict[tuple[int, int], list[str]] = {}
    reasons: dict[tuple[int, int], str] = {}
    for key in keys:
        for value in key.values:
            source = (value.parameter, -1)
            seen.setdefault(source, []).append(value.text)
            reasons[source] = f"argument '{value.name}', because {value.reason}"
        for size in key.sizes:
            source = (size.parameter, size.axis)
            seen.setdefault(source, []).append(str(size.size))
            reasons[source] = f"size {size.axis} of argument '{size.name}', because {size.reason}"
    for source, reason in reasons.items():
        texts = list(dict.fromkeys(reversed(seen[source])))
        if len(texts) > 1:
            more = ", ..." if len(texts) > _SHOWN else ""
            lines.append(f"  {', '.join(texts[:_SHOWN])}{more} for {reason}")
    lines.append("Pass what changes often as data, or give the size a fixed bound.")
    return "\n".join(lines)
