# SPDX-License-Identifier: Apache-2.0
"""The targets that every program may call, registered when the first program is linked.

Registering is cheap: LAPACK's library is loaded by the first call that needs it.
"""

from __future__ import annotations

from functools import cache

from ingot.runtime.foreign.collectives.targets import register_exchanges
from ingot.runtime.foreign.feeds import register_feeds
from ingot.runtime.foreign.lapack.targets import register_lapack
from ingot.runtime.foreign.random_state import register_random_state
from ingot.runtime.foreign.sink import register_sink
from ingot.runtime.foreign.sparse import register_sparse
from ingot.runtime.foreign.tridiagonal import register_tridiagonal


@cache
def register_builtin_targets() -> None:
    """Register the targets that come with Ingot, once."""
    register_lapack()
    register_sparse()
    register_tridiagonal()
    register_exchanges()
    register_random_state()
    register_feeds()
    register_sink()
