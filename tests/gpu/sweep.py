# SPDX-License-Identifier: Apache-2.0
"""The programs of the differential tests on a GPU: `python -m tests.gpu.sweep [--device] [N]`.

Every N-th of the 10,000 (default: all) is compared with the evaluator, as near as the CPU's results
must be. They run under emulation, or with `--device` on the GPU of this machine.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from tests.differential import engine
from tests.differential.case import ALONE, Array, Case
from tests.differential.table import all_cases
from tests.gpu.fake_gpu import install

import ingot
from ingot.hlo.module import Module


def on_gpu(module: Module, inputs: list[Array]) -> engine.Leaves:
    """Run on the first GPU."""
    found = ingot.compile(module, device="gpu")(*inputs)
    return [np.asarray(leaf) for leaf in (found if isinstance(found, tuple) else (found,))]


def differences(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """Yield the name of each case whose result is another one on the GPU, and how; or why none."""
    for result in engine.run_cases(cases, xla=False, native=on_gpu):
        if result.cpu:
            yield result.case.name, result.cpu
        for _, reason in result.unsupported:
            yield result.case.name, reason


def programs(every: int) -> list[Case]:
    """Return every so-many-th case of one device."""
    return [case for case in all_cases() if case.grid == ALONE][::every]


def main(arguments: list[str]) -> int:
    """Print what differs; return how many programs that are, 1 at most."""
    if "--device" not in arguments:
        install()
    every = int(next((text for text in arguments if text.isdecimal()), "1"))
    cases, begin = programs(every), time.monotonic()
    found = list(differences(cases))
    for name, what in found[:100]:
        print(f"{name}: {what[:300]}")
    print(f"{len(found)} of {len(cases)} differ, {time.monotonic() - begin:.0f} s")
    for opcode, count in Counter(name.split(" ")[0] for name, _ in found).most_common():
        print(f"  {opcode}: {count}")
    return min(1, len(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
