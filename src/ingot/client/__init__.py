# SPDX-License-Identifier: Apache-2.0
"""The client: compile and execute. One implementation of executables for every front end."""

from ingot.client.caches import clear_caches, load_library
from ingot.client.compile import compile
from ingot.client.config import config
from ingot.client.evaluate import evaluate
from ingot.client.executable import Executable

__all__ = [
    "Executable",
    "clear_caches",
    "compile",
    "config",
    "evaluate",
    "load_library",
]
