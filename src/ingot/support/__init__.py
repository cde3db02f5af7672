# SPDX-License-Identifier: Apache-2.0
"""Support: the lowest layer, which every layer may use.

It has errors that users can act on (`diagnostics`), the one registry of flags (`flags`, with
XLA's own in `xla_flags`), log lines (`tracing`), compile-time measurement (`timing`), walks over
graphs (`graphs`), the state of Ingot's sources (`sources`) and small text helpers.
"""

import time

BEGAN = time.time()
"""The time of this process's first import of Ingot, in seconds since 1970."""
