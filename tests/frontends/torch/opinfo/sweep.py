# SPDX-License-Identifier: Apache-2.0
"""All rows of PyTorch's table of ops, or those that a pattern matches.

    python -m tests.frontends.torch.opinfo.sweep ['names']

compares them with eager PyTorch, prints those that differ or fail, and which ops PyTorch ran.
"""

import re
import sys
import time
import warnings
from collections import Counter

import torch
from tests.frontends.torch.opinfo.exceptions import EXCEPTIONS
from tests.frontends.torch.opinfo.row import check_row, rows

from ingot.support.flags import IngotWarning


def main() -> int:
    """Compare the rows that the command line asks for; return how many failed."""
    warnings.simplefilter("ignore", IngotWarning)
    names = re.compile(sys.argv[1] if len(sys.argv) > 1 else ".*")
    chosen = [row for name, row in rows().items() if names.search(name)]
    torch.set_num_threads(1)
    begin, failed, samples = time.process_time(), 0, 0
    on_host: Counter[str] = Counter()
    for row in chosen:
        try:
            compared, host = check_row(row)
        except Exception as error:  # each row is its own
            text = re.sub(r"\s+", " ", str(error))
            listed = "listed" if row.name in EXCEPTIONS else "FAILED"
            failed += listed == "FAILED"
            print(f"{listed} {row.name:44} {type(error).__name__}: {text[:300]}", flush=True)
        else:
            samples += compared
            on_host.update(host)
    for name, count in on_host.most_common():
        print(f"run by PyTorch in {count} rows: {name}")
    seconds = time.process_time() - begin
    print(f"{len(chosen)} rows, {samples} samples, {failed} failed, {seconds:.0f} s of one core")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
