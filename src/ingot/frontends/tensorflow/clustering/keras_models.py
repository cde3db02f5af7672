# SPDX-License-Identifier: Apache-2.0
"""A word for models that Keras leaves uncompiled: its `jit_compile="auto"` is False without a GPU.

Keras may be imported after Ingot is enabled, so its trainer is patched when its module is there.

Invariant: what Keras decides is not changed; the word is said once, and only if nobody has asked
for clustering, which compiles such a model too.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import types
from collections.abc import Callable
from functools import cache
from typing import Any

from ingot.frontends.tensorflow.api.patching import Replace
from ingot.support.import_hooks import AfterImport

_MODULE = "keras.src.trainers.trainer"
_logger = logging.getLogger("ingot.tensorflow")


def watch(replace: Replace, is_clustering: Callable[[], bool]) -> None:
    """Patch the trainer of Keras now, or when it is imported."""

    def patch_trainer(module: Any) -> None:
        replace(module.Trainer, "compile", telling)

    def telling(original: Any) -> Any:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def compile_model(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(trainer, *args, **kwargs)
            asked = signature.bind(trainer, *args, **kwargs).arguments.get("jit_compile", "auto")
            if asked == "auto" and not (
                trainer.jit_compile or trainer.run_eagerly or is_clustering()
            ):
                _tell()
            return made

        return compile_model

    module = sys.modules.get(_MODULE)
    if module is not None and hasattr(module, "Trainer"):
        patch_trainer(module)
    else:
        sys.meta_path.insert(0, _PatchTrainer(patch_trainer))


def unwatch() -> None:
    """Wait for Keras no longer."""
    sys.meta_path[:] = [item for item in sys.meta_path if not isinstance(item, _PatchTrainer)]


class _PatchTrainer(AfterImport):
    """Patches the trainer's module right after it was imported."""

    def __init__(self, patch: Callable[[Any], None]) -> None:
        super().__init__((_MODULE,))
        self._patch = patch

    def imported(self, module: types.ModuleType) -> None:
        """Patch it, and wait no longer."""
        unwatch()
        self._patch(module)


@cache
def _tell() -> None:
    _logger.warning(
        "Ingot is not used for models that Keras leaves uncompiled: without a GPU, "
        'jit_compile="auto" means False. Pass jit_compile=True to compile(), or set '
        "TF_XLA_FLAGS=--tf_xla_auto_jit=2"
    )
