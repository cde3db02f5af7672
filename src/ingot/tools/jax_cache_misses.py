# SPDX-License-Identifier: Apache-2.0
"""Why JAX traced and compiled a function again: its own explanations, as observations.

With `jax_explain_cache_misses` JAX logs which argument differs from the most similar earlier call;
messages about new functions are ignored.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ingot.support.observing import COMPILED_AGAIN, Observation, note
from ingot.support.regex import regex

_VARIABLE = "JAX_EXPLAIN_CACHE_MISSES"
_MISS = regex(
    r"TRACING CACHE MISS at (?P<location>\S+).*?\n  for (?P<function>.*?)\n(?P<why>.*)", re.S
)
_DIFFERENCE = regex(r"^ *\* (.*)$", re.MULTILINE)


class _Listener(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Report a message of JAX's that explains a miss."""
        found = _MISS.search(record.getMessage())
        if found is None:
            return
        reasons = _DIFFERENCE.findall(found["why"]) or [found["why"].strip().splitlines()[-1]]
        location = f"called at {found['location'].rstrip(':')}"
        note(Observation(COMPILED_AGAIN, found["function"], (*map(str.strip, reasons), location)))


@contextmanager
def explained_misses() -> Generator[None]:
    """Turn JAX's explanations into observations in the `with` block; it may import JAX."""
    before, listener, logger = os.environ.get(_VARIABLE), _Listener(), logging.getLogger("jax")
    jax: Any = sys.modules.get("jax")
    was_on = jax is not None and jax.config.jax_explain_cache_misses
    os.environ[_VARIABLE] = "1"
    if jax is not None:
        jax.config.update("jax_explain_cache_misses", True)
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
        jax = sys.modules.get("jax")
        if jax is not None:
            jax.config.update("jax_explain_cache_misses", bool(was_on or before))
