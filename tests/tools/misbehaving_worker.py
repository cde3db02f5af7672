# SPDX-License-Identifier: Apache-2.0
"""A child of `Trials` that dies of some programs and never answers others, for tests."""

import os
import signal
import sys
import time

from ingot.support.worker import inherited, prepare
from ingot.tools.reduction import trial_worker


def main() -> None:
    """Answer as `trial_worker` does, but for programs with `tanh` or `sine`."""
    plain = trial_worker.tried

    def tried(text, bounds, seed):
        if " tanh(" in text:
            os.kill(os.getpid(), signal.SIGSEGV)
        if " sine(" in text:
            time.sleep(60)
        return plain(text, bounds, seed)

    trial_worker.tried = tried
    trial_worker.serve(inherited(sys.argv[1:]))


if __name__ == "__main__":
    prepare()
    main()
