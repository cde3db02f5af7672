# SPDX-License-Identifier: Apache-2.0
"""Errors of running programs for PyTorch's users: Ingot's text, PyTorch's class.

PyTorch raises `IndexError` for an index out of bounds and for a dimension without elements (some
kernels, as those of `gather` and `scatter`, a `RuntimeError`, so the error is both),
`torch.OutOfMemoryError` if there is no memory, and `RuntimeError` for everything else.
"""

from __future__ import annotations

import torch

from ingot.frontends.torch.lowering.assertions import NO_ELEMENTS
from ingot.frontends.torch.lowering.indexing_ops.index_checks import OUT_OF_BOUNDS
from ingot.support.diagnostics import ExecutionError, IngotError, ResourceError


class TorchExecutionError(ExecutionError, RuntimeError):
    """A compiled program failed while it ran."""


class TorchIndexError(ExecutionError, IndexError, RuntimeError):
    """An index of a compiled program is out of bounds."""


class TorchOutOfMemoryError(ResourceError, torch.OutOfMemoryError):
    """There is no memory for the results or temporaries of a program."""


def as_torch_error(error: IngotError) -> IngotError:
    """Return an error of an execution as an instance of the class that PyTorch's kernels raise."""
    if isinstance(error, ResourceError):
        return TorchOutOfMemoryError(error.diagnostic)
    if not isinstance(error, ExecutionError):
        return error
    is_index = any(part in error.diagnostic.message for part in (OUT_OF_BOUNDS, NO_ELEMENTS))
    made = (TorchIndexError if is_index else TorchExecutionError)(error.diagnostic)
    made.__cause__, made.status = error.__cause__, error.status
    return made
