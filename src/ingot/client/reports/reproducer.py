# SPDX-License-Identifier: Apache-2.0
"""Failures inside a compilation become an `InternalError` that names a file with the module.

This is the last line of defence of `ingot.compile`: an exception of another class than Ingot's is a
bug of Ingot's, and so is an `InternalError`. Both name a file with the module as HLO text, which
begins with versions and flags, and which `ingot opt` and `ingot run` read. Errors in the user's
program pass unchanged.

Example:
    >>> from ingot.formats.hlo_text import parse_hlo
    >>> with reproducible(parse_hlo("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }")):
    ...     pass
"""

from __future__ import annotations

import errno
import os
import platform
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

from ingot.client.reports.dump import print_module
from ingot.hlo.module import Module
from ingot.support.diagnostics import IngotError, InternalError, ResourceError
from ingot.support.records import replace
from ingot.support.versions import VERSION

_LIMITS = frozenset(
    {errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT}
)
"""Errors of the system for which the machine is at fault, not the compiler."""

_FLAGS = ("INGOT_", "XLA_FLAGS", "TF_XLA_FLAGS")


@contextmanager
def reproducible(module: Module) -> Generator[None]:
    """Write `module`, which must not be changed in the block, to a file if the block fails.

    Raises:
        InternalError: with a note of the file; INGOT0901 for exceptions of other classes than
            Ingot's.
        ResourceError: INGOT0401, the machine has no more memory, files or room on its disk.
    """
    try:
        yield
    except InternalError as error:
        notes = (*error.diagnostic.notes, _saved(module))
        raise InternalError(replace(error.diagnostic, notes=notes)) from error
    except IngotError:
        raise
    except MemoryError as error:
        raise ResourceError("out of memory while compiling", code="INGOT0401") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _LIMITS:
            raise ResourceError(
                f"a limit was met while compiling: {error}", code="INGOT0401"
            ) from error
        raise InternalError(
            f"compiling {module.name} failed with {type(error).__name__}: {error}",
            code="INGOT0901",
            notes=(_saved(module),),
            hint="this is a bug of Ingot's: please report it with that file",
        ) from error


def _saved(module: Module) -> str:
    """Write the module into a file of its own; return a sentence that names it."""
    try:
        given = [f"// {name}={value!r}" for name, value in sorted(os.environ.items())
                 if name.startswith(_FLAGS)]  # fmt: skip
        versions = f"// ingot {VERSION}, {platform.platform()}"
        text = "\n".join([versions, *given, print_module(module)])
        with tempfile.NamedTemporaryFile(prefix="ingot-", suffix=".hlo", delete=False) as file:
            file.write(text.encode("utf-8", "surrogateescape"))
    except Exception as error:  # The first error is more important than this one.
        return f"the module could not be kept: {error}"
    return f"the module is kept in {file.name}"
