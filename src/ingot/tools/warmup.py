# SPDX-License-Identifier: Apache-2.0
"""`ingot warmup`: compile ahead what every process on a machine needs, for images and containers.

The library and the run-time code go into the cache on disk. Each installed framework then runs a
program of one line in a process of its own, so that what its front end compiles is there as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click

from ingot.support import flags
from ingot.support.diagnostics import UnsupportedError
from ingot.support.trusted_files import distrust
from ingot.support.versions import installed

LIBRARY = "the library"
PROGRAMS: dict[str, str] = {
    "tensorflow": "import tensorflow as tf, ingot.tensorflow; ingot.tensorflow.enable(); "
    "tf.function(lambda x: x + 1, jit_compile=True)(tf.zeros(4))",
    "jax": "import jax; jax.jit(lambda x: x + 1)(jax.numpy.zeros(4)).block_until_ready()",
    "torch": "import torch; torch.compile(lambda x: x + 1, backend='ingot')(torch.zeros(4))",
}
"""Framework -> a program that compiles what its front end needs."""


def warm_library() -> str:
    """Compile the run-time code and the common parts of the library; nothing is wrong with that."""
    from ingot.client import load_library
    from ingot.runtime.native import native_runtime

    native_runtime()
    load_library()
    return ""


def warm_framework(name: str) -> str:
    """Run a framework's program; return the error, or "" if there is none."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[name]],
        env={**os.environ, "JAX_PLATFORMS": "ingot", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (lines or [f"exit status {done.returncode}"])[-1]


def cache_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _require_cache() -> Path:
    """Return the folder of the cache.

    Raises:
        UnsupportedError: it is off, or others may write it.
    """
    folder = Path(flags.CACHE_DIR.value())
    if not flags.CACHE.value():
        raise UnsupportedError(
            "compiled programs cannot be kept: the cache on disk is off",
            hint="unset INGOT_CACHE=0",
        )
    if reason := distrust(folder):
        raise UnsupportedError(
            f"compiled programs cannot be kept in {folder}: {reason}",
            hint="set INGOT_CACHE_DIR to a folder of your own",
        )
    return folder


@click.command(name="warmup")
def command() -> int:
    """Compile ahead what every process on this machine needs, into the cache on disk.

    For images of containers: run it at the end of the build, on a CPU of the kind that the image
    is for. Programs of your own are kept when they run once.

    Exit status 0: all is there; 1: a framework's program failed.
    """
    folder = _require_cache()
    failed = 0
    for name in (LIBRARY, *filter(installed, PROGRAMS)):
        start = time.perf_counter()
        problem = warm_framework(name) if name in PROGRAMS else warm_library()
        seconds = f"{time.perf_counter() - start:.1f} s"
        print(f"{name}: {problem or seconds}", flush=True)
        failed += bool(problem)
    print(f"{folder}: {cache_bytes(folder) / 1e6:.1f} MB")
    return 1 if failed else 0
