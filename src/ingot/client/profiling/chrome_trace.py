# SPDX-License-Identifier: Apache-2.0
"""A profile as a trace in Chrome's format, which Perfetto shows, also offline.

Each device is a process, each thread that ran kernels a thread. The events of a loop are nested in
its own. An event has XLA's names for its origin (`hlo_module`, `hlo_op`), the HLO instruction, the
framework's name, and the user's lines.

Source: "Trace Event Format" of the Chromium project (complete events, `ph` "X"; times in us).
"""

from __future__ import annotations

import json
from typing import Any

from ingot.client.profiling.timings import Site, Timings
from ingot.runtime.recording import Event


def chrome_trace(profile: Timings) -> str:
    """Return the trace as JSON."""
    runs = sorted(profile.runs, key=lambda run: (run[1].start, -run[1].end))
    devices = {device: n for n, device in enumerate(sorted({e.device for _, e in runs}))}
    threads = {key: n for n, key in enumerate(dict.fromkeys(_thread(e) for _, e in runs))}
    begin = profile.recording.begin
    events = [
        {"ph": "M", "name": "process_name", "pid": number, "args": {"name": f"Ingot {number}"}}
        for number in devices.values()
    ]
    events += [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": devices[device],
            "tid": number,
            "args": {"name": f"kernels {number}"},
        }
        for (device, _), number in threads.items()
    ]
    events += [
        {
            "ph": "X",
            "name": site.name,
            "cat": site.kind,
            "pid": devices[event.device],
            "tid": threads[_thread(event)],
            "ts": (event.start - begin) / 1e3,
            "dur": (event.end - event.start) / 1e3,
            "args": _arguments(site, event),
        }
        for site, event in runs
    ]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})


def _thread(event: Event) -> tuple[tuple[int, int], int]:
    return event.device, event.thread


def _arguments(site: Site, event: Event) -> dict[str, Any]:
    """Return the known properties of an event."""
    nanoseconds = max(1, event.end - event.start)
    known = {
        "hlo_module": site.module,
        "hlo_op": site.name,
        "hlo": site.hlo,
        "contains": " ".join(site.opcodes),
        "tf_op": site.op_name,
        "source": ", ".join(site.lines) or site.source,
        "bytes_accessed": site.bytes,
        "flops": site.flops,
        "GB/s": round(site.bytes / nanoseconds, 3),
        "GFLOP/s": round(site.flops / nanoseconds, 3),
    }
    return {name: value for name, value in known.items() if value}
