# SPDX-License-Identifier: Apache-2.0
"""Why JAX traced and compiled a function again: its own explanations, as observations.

JAX says with `jax_explain_cache_misses` which argument differs from the nearest call before. The
messages go to its logger; functions that it never saw before are no news.
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

_VARIABLE = "JAX_EXPLAIN_CACHE_MISSES"
_MISS = re.compile(
    r"TRACING CACHE MISS at (?P<place>\S+).*?\n  for (?P<function>.*?)\n(?P<why>.*)", re.S
)
_DIFFERENCE = re.compile(r"^ *\* (.*)$", re.MULTILINE)


class _Listener(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Note a message of JAX's that explains a miss."""
        found = _MISS.search(record.getMessage())
        if found is None:
            return
        reasons = _DIFFERENCE.findall(found["why"]) or [found["why"].strip().splitlines()[-1]]
        place = f"called at {found['place'].rstrip(':')}"
        note(Observation(COMPILED_AGAIN, found["function"], (*map(str.strip, reasons), place)))


@contextmanager
def explained_misses() -> Generator[None]:
    """Turn JAX's explanations into observations inside of the `with`; JAX may be imported there."""
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
