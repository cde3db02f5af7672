# SPDX-License-Identifier: Apache-2.0
"""Models in files as modules: a SavedModel's signature, a `.keras` file.

What `ingot aot` calls for them. TensorFlow and Keras read the files; `freezing` makes the module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.frontends.tensorflow.api.modules import errors, tensorflow
from ingot.frontends.tensorflow.export.freezing import frozen_module
from ingot.hlo.module import Module
from ingot.support.diagnostics import ResourceError, UnsupportedError


def load_saved_model(folder: str, signature: str, tags: Sequence[str]) -> Module:
    """Return a signature of a SavedModel as a module, its variables as constants.

    The parameters are the signature's inputs, the results its outputs, both sorted by name.

    Args:
        folder: the SavedModel's folder.
        signature: the signature's name, `serving_default`.
        tags: the tags of the graph, `["serve"]`.

    Raises:
        ResourceError: INGOT0411 there is no SavedModel that TensorFlow can read, or none with
            these tags.
        UnsupportedError: it has no such signature, or the signature cannot be compiled.
    """
    try:
        loaded: Any = tensorflow.saved_model.load(folder, tags=list(tags))
    except (OSError, RuntimeError, ValueError, errors.OpError) as error:
        raise _unreadable(
            folder, error, "give the folder of a SavedModel, and the tags that it was saved with"
        ) from error
    if signature not in loaded.signatures:
        names = ", ".join(sorted(loaded.signatures)) or "none"
        raise UnsupportedError(
            f"the SavedModel {folder} has no signature '{signature}'",
            hint=f"its signatures: {names}",
        )
    return frozen_module(loaded.signatures[signature])


def load_keras(file: str) -> Module:
    """Return the call for inference of the model in a `.keras` file.

    Raises:
        ResourceError: INGOT0411 the file cannot be read, or needs code that is not there.
        UnsupportedError: the model cannot be compiled.
    """
    try:
        model: Any = tensorflow.keras.models.load_model(file, compile=False)
    except (OSError, TypeError, ValueError) as error:
        hint = (
            "a model with layers of its own: load it in Python and use ingot.tensorflow."
            "frozen_module"
        )
        raise _unreadable(file, error, hint) from error
    return frozen_module(model)


def _unreadable(path: str, error: Exception, hint: str) -> ResourceError:
    return ResourceError(f"{path} cannot be read: {error}", code="INGOT0411", hint=hint)
