# SPDX-License-Identifier: Apache-2.0
"""The user's choices for `torch.compile`: its `mode=` and `options=`, as an `Options`.

Invariant: `in_force` covers the compilation of each graph: backward graphs may be compiled long
after forward ones.

Example:
    torch.compile(model, backend="ingot", options={"threads": 1, "fp": "fast"})
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, cast

import torch

from ingot.client.executables.threads import require_threads
from ingot.client.options import Settings, checked
from ingot.runtime.native import num_threads
from ingot.support.arguments import require_type
from ingot.support.diagnostics import FlagError
from ingot.support.flags import NUM_THREADS, override_values
from ingot.support.records import record
from ingot.support.text import did_you_mean

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of `torch.compile`; Ingot makes the same code for all."""

_SETTINGS = ("fp", "dump_to", "strict")
KNOWN = ("threads", *_SETTINGS)


@record
class Options:
    """The options of one call of `torch.compile`.

    Attributes:
        threads: the threads that run the programs, if the user says so here.
        flags: the values that flags have while its graphs are compiled.
    """

    threads: int | None = None
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(mode: object, options: object) -> Options:
        """Return the options that a user gave.

        Raises:
            ArgumentError: INGOT0513, a value is of the wrong type.
            FlagError: INGOT0600, there is no such mode or option, or it does not take the value.
        """
        if mode is not None and mode not in MODES:
            raise FlagError(
                f"torch.compile has no mode {mode!r}", hint=f"there are {', '.join(MODES)}"
            )
        require_type(options, (dict, type(None)), "options")
        given = cast("dict[Any, Any]", options or {})
        for name in given:
            if name not in KNOWN:
                hint = did_you_mean(str(name), KNOWN)
                there_are = f"there are {', '.join(KNOWN)}"
                raise FlagError(
                    f"the backend 'ingot' of torch.compile has no option {name!r}",
                    hint=f"{hint} {there_are}" if hint else there_are,
                )
        threads = given.get("threads")
        if threads is not None:
            require_threads(threads)
        settings = {name: given[name] for name in _SETTINGS if name in given}
        return Options(threads, checked(cast("Settings", settings)))

    def program_threads(self) -> int | None:
        """Return the threads that run a program compiled now; None: those of the process.

        PyTorch's number counts where it is the smaller one (`torch.set_num_threads`,
        `OMP_NUM_THREADS`), as it does for inductor, unless `INGOT_NUM_THREADS` is set.
        """
        if self.threads is not None or NUM_THREADS.value():
            return self.threads
        of_pytorch = torch.get_num_threads()
        return of_pytorch if of_pytorch < num_threads() else None

    def in_force(self) -> AbstractContextManager[None]:
        """Return a context in which the flags have the values of these options."""
        return override_values(self.flags)
