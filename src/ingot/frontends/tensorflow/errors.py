"""From Ingot's errors to TensorFlow's, text and all.

Inside a kernel an error is a status: `status_of` gives code and text. In Python it is an exception
of `tf.errors`. Both carry the whole diagnostic: the op, the node, the user's file and line, why,
and what to do.

Invariant: no exception leaves a trampoline; what is not an `IngotError` is reported as a bug of
Ingot with its traceback.
"""

from __future__ import annotations

import traceback

from ingot.frontends.tensorflow import capi
from ingot.frontends.tensorflow.modules import errors
from ingot.support.diagnostics import IngotError, InternalError, ResourceError


def status_of(error: BaseException, function: str) -> tuple[int, str]:
    """Return TensorFlow's status code and the text for an error of `function`."""
    if isinstance(error, IngotError):
        text = f"Ingot cannot compile the function '{function}':\n{error.diagnostic.render()}"
        return _code(error), text
    lines = "".join(traceback.format_exception(error))
    return (
        capi.INTERNAL,
        f"Ingot failed on the function '{function}'. This is a bug in Ingot.\n{lines}",
    )


def _code(error: IngotError) -> int:
    if isinstance(error, ResourceError):
        return capi.RESOURCE_EXHAUSTED
    return capi.INTERNAL if isinstance(error, InternalError) else capi.INVALID_ARGUMENT


def translate(error: IngotError, function: str) -> Exception:
    """Return the `tf.errors` exception for an error met outside of a kernel."""
    code, text = status_of(error, function)
    return errors.exception_type_from_error_code(code)(None, None, text)
