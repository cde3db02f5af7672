# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's profiler shows our kernels: `tf.profiler`, and Keras' callback for TensorBoard.

`hook` puts `with_kernels` in the place of TensorFlow's `ProfilerSession`, through which all of its
ways to profile go. While a session runs, kernels are recorded; what it writes then has a plane of
Ingot's, with a line for each thread and an event for each kernel, call and loop: its name, the
user's op and line, its bytes and FLOPs (`client.pjrt.python_slots.profiler`, which `jax.profiler`
shows too).

Invariant: without a session nothing is recorded, and what TensorFlow records stays as it is.

Source: tsl/profiler/protobuf/xplane.proto. A message is followed by another one to join their
lists, which is what adding a plane is (protobuf's encoding of `repeated`).
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

from ingot.client.profiling.profile import Profiler
from ingot.support.diagnostics import ResourceError
from ingot.support.flags import IngotWarning

_FILES = "plugins/profile/*/*.xplane.pb"


def with_kernels(original: Any) -> Any:
    """Return what makes a session of TensorFlow's profiler that records our kernels as well."""

    def session() -> Session:
        return Session(original())

    return session


class Session:
    """A session of TensorFlow's profiler, and a recording of ours with the same length."""

    def __init__(self, theirs: Any) -> None:
        """Wrap a session that is not started."""
        self._theirs = theirs
        self._ours: Profiler | None = None
        self._folder = ""
        self._begin = 0

    def start(self, logdir: str, options: Any) -> None:
        """Begin; `logdir` is the folder that TensorBoard looks at."""
        begin = time.time_ns()  # TensorFlow's times count from here
        self._theirs.start(logdir, options)
        self._folder, self._begin, profiler = logdir, begin, Profiler()
        try:
            profiler.start()
        except ResourceError as error:
            text = f"TensorFlow's profile does not show Ingot's kernels: {error.diagnostic.message}"
            warnings.warn(text, IngotWarning, stacklevel=4)
            return
        self._ours = profiler

    def stop(self) -> bytes:
        """End; return what was recorded, as an XSpace."""
        ours = self._stopped()
        return self._theirs.stop() + ours

    def export_to_tb(self) -> None:
        """End, and write what was recorded beneath the folder."""
        ours, root = self._stopped(), Path(self._folder)
        before = {path: path.stat().st_mtime_ns for path in root.glob(_FILES)}
        self._theirs.export_to_tb()
        for path in root.glob(_FILES) if ours else ():
            if before.get(path) != path.stat().st_mtime_ns:
                with path.open("ab") as file:
                    file.write(ours)

    def _stopped(self) -> bytes:
        """End our recording; return its XSpace, whose times count as TensorFlow's do."""
        profiler, self._ours = self._ours, None
        if profiler is None:
            return b""
        # Most programs are never profiled, and the rest of this package is not needed for it.
        from ingot.client.pjrt.python_slots.profiler import xspace
        from ingot.formats.hlo_proto.wire import decode, encode

        found = decode(xspace(profiler.stop()), "XSpace")
        for plane in found.get("planes", ()):
            for line in plane["lines"]:
                line["timestamp_ns"] = max(line["timestamp_ns"] - self._begin, 0)
        return encode(found, "XSpace")

    def __del__(self) -> None:
        """End our recording with a session that nobody stops (`stop(save=False)`)."""
        self._stopped()
