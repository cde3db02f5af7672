"""A word for models that Keras leaves uncompiled: its `jit_compile="auto"` is False without a GPU.

Keras may be imported after Ingot is enabled, so its trainer is patched when its module is there.

Invariant: what Keras decides is not changed; the word is said once, and only if nobody has asked
for clustering, which compiles such a model too.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
import types
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ingot.frontends.tensorflow.patching import Replace

_MODULE, _METHOD = "keras.src.trainers.trainer", "_resolve_auto_jit_compile"
_logger = logging.getLogger("ingot.tensorflow")


def watch(replace: Replace, is_clustering: Callable[[], bool]) -> None:
    """Patch the trainer of Keras now, or when it is imported."""

    def patch_trainer(module: Any) -> None:
        if not hasattr(module.Trainer, _METHOD):
            return  # This Keras decides in another way, and its import must not fail for a word.

        def telling(original: Any) -> Any:
            def resolve(trainer: Any) -> Any:
                found = original(trainer)
                if not found and not is_clustering():
                    _tell()
                return found

            return resolve

        replace(module.Trainer, _METHOD, telling)

    module = sys.modules.get(_MODULE)
    if module is not None and hasattr(module, "Trainer"):
        patch_trainer(module)
    else:
        sys.meta_path.insert(0, _AfterImport(patch_trainer))


def unwatch() -> None:
    """Wait for Keras no longer."""
    sys.meta_path[:] = [item for item in sys.meta_path if not isinstance(item, _AfterImport)]


class _AfterImport(importlib.abc.MetaPathFinder):
    """Does something with the trainer's module right after it was imported."""

    def __init__(self, act: Callable[[Any], None]) -> None:
        self._act = act

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module as others would, and act when its loader has run."""
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            del loader.exec_module  # the instance's attribute: the class's method is back
            execute(module)
            self._act(module)

        loader.exec_module = exec_module
        return spec


@cache
def _tell() -> None:
    _logger.warning(
        "Ingot is not used for models that Keras leaves uncompiled: without a GPU, "
        'jit_compile="auto" means False. Pass jit_compile=True to compile(), or set '
        "TF_XLA_FLAGS=--tf_xla_auto_jit=2"
    )
