# SPDX-License-Identifier: Apache-2.0
"""Support: what every layer may use and what itself uses no layer.

Errors that users can act on (`diagnostics`), the one registry of switches (`flags`, with XLA's own
in `xla_flags`), log lines (`tracing`), compile-time measurement (`timing`), the state of Ingot's
sources (`sources`) and small text helpers.
"""

import time

BEGAN = time.time()
"""When this process first imported something of Ingot, in seconds since 1970."""
