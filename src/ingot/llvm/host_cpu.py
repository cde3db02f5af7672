# SPDX-License-Identifier: Apache-2.0
"""What LLVM says of this machine's CPU, kept on the disk so that later processes need no LLVM.

The entry's key holds Linux's description of the CPU, and the version of llvmlite.
"""

from __future__ import annotations

import json
from functools import cache

from ingot.llvm.binding import llvm, llvmlite_version
from ingot.llvm.cache import ObjectCache, default_cache
from ingot.support.records import record

_CPU_INFO = "/proc/cpuinfo"


@record
class HostCpu:
    """This machine's CPU.

    Attributes:
        triple: LLVM's target triple of this process.
        name: LLVM's name of the CPU.
        features: LLVM's feature string, with those that are off.
    """

    triple: str
    name: str
    features: str

    @property
    def feature_set(self) -> frozenset[str]:
        """The features that are on, in LLVM's names."""
        given = self.features.split(",")
        return frozenset(item[1:] for item in given if item.startswith("+"))


@cache
def host_cpu() -> HostCpu:
    """Return this machine's CPU."""
    known = _first_cpu()
    key = ObjectCache.key("host", llvmlite_version(), known)
    found = default_cache().get(key) if known else None
    if found is not None:
        return HostCpu(*json.loads(found))
    made = [
        str(llvm.get_process_triple()),
        str(llvm.get_host_cpu_name()),
        str(llvm.get_host_cpu_features().flatten()),
    ]
    if known:
        default_cache().put(key, json.dumps(made).encode())
    return HostCpu(*made)


def _first_cpu() -> str:
    """Return `/proc/cpuinfo` of the first CPU without its changing lines; "" if there is none."""
    lines: list[str] = []
    try:
        with open(_CPU_INFO, encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():
                    break
                if not line.startswith("cpu MHz"):
                    lines.append(line)
    except OSError:
        return ""
    return "".join(lines)
