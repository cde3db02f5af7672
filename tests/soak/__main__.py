# SPDX-License-Identifier: Apache-2.0
"""`make soak HOURS=n`: hours of work with faults in one process; memory and descriptors stay flat.

Says a line a minute. Fails at the first thing that goes wrong, or when something grew in the end.

Example:
    .venv/bin/python -m tests.soak --hours 0.1
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "ingot")

from tests.soak.activities import (
    Server,
    full_disk,
    killed_child,
    lost_cache,
    no_memory,
    recompile,
    signals,
    threads,
    train,
)
from tests.soak.gauges import Reading, growth, read, settle


def main() -> int:
    """Soak, and say what was done."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hours", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["INGOT_CACHE_DIR"] = str(Path(folder) / "cache")
        return _soak(given.hours * 3600, random.Random(given.seed))


def _soak(seconds: float, choose: random.Random) -> int:
    server = Server()
    activities = [
        recompile, recompile, recompile, train, train, server, server, full_disk, lost_cache,
        no_memory, signals, killed_child, threads,
    ]  # fmt: skip
    counts: Counter[str] = Counter()
    readings: dict[str, list[Reading]] = {"this process": [], "the server": []}
    begun = said = time.monotonic()
    while (now := time.monotonic()) < begun + seconds:
        order = choose.sample(activities, len(activities))
        for activity in order:
            activity(choose)
            counts[getattr(activity, "__name__", "serve")] += 1
        settle()
        readings["this process"].append(read(os.getpid()))
        if server.process is not None:
            readings["the server"].append(read(server.process.pid))
        if now > said + 60:
            said = now
            print(f"{(now - begun) / 60:.0f} min: {dict(counts)}, {readings['this process'][-1]}")
    server.close()
    # A server that was killed begins anew: only what one process holds can be compared.
    grown = growth(readings["this process"])
    print(f"{sum(counts.values())} rounds: {dict(counts)}")
    print("\n".join(grown) if grown else "nothing grew")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
