# SPDX-License-Identifier: Apache-2.0
"""Runs the functions `case_*` of a program file and pickles what they return, as NumPy arrays.

Called in a process of its own: `python run_cases.py PROGRAM OUTPUT`, with `JAX_PLATFORMS` set. A
case that raises leaves the text of its exception instead.
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any


def main(program: Path, output: Path) -> None:
    """Run every case."""
    specification = importlib.util.spec_from_file_location(program.stem, program)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    results: dict[str, Any] = {}
    for name, case in list(vars(module).items()):
        if name.startswith("case_"):
            results[name] = run(case)
    output.write_bytes(pickle.dumps(results))


def run(case: Any) -> Any:
    """Return the leaves of what a case returns, or the text of its exception."""
    import jax
    import numpy as np

    try:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(case())]
    except Exception:
        return traceback.format_exc()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
