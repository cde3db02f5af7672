# SPDX-License-Identifier: Apache-2.0
"""The names that the modules of Keras hold, taken from the modules: the tables must have each.

A name that means the same object as an earlier one (`layers.AvgPool1D`, `ops.linalg.qr`) is the
same row.
"""

import inspect
from operator import attrgetter
from typing import Any

from tests.frontends.tensorflow.keras.which import IS_KERAS_2, keras

_CLASSES = (
    "layers optimizers optimizers.schedules losses metrics regularizers constraints initializers"
)
_FUNCTIONS = "layers activations losses metrics"
_KERAS_3 = ("random", "ops ops.image ops.linalg ops.nn ops.numpy random")
_KERAS_2 = ("optimizers.legacy", "")


def _modules(paths: str) -> dict[str, Any]:
    """Return modules of Keras by the last part of their names."""
    return {path.rpartition(".")[2]: attrgetter(path)(keras) for path in paths.split()}


_more_classes, _more_functions = _KERAS_2 if IS_KERAS_2 else _KERAS_3
CLASS_MODULES = _modules(f"{_CLASSES} {_more_classes}")
FUNCTION_MODULES = _modules(f"{_FUNCTIONS} {_more_functions}")
SERIALIZATION = ("serialize", "deserialize", "get")
"""Functions of Python objects, in most modules."""


def public_names() -> list[str]:
    """Return module and name of each class and function, without second names."""
    found: dict[int, str] = {}
    for modules, is_kind in ((CLASS_MODULES, True), (FUNCTION_MODULES, False)):
        for module_name, module in modules.items():
            for name in dir(module):
                item = getattr(module, name)
                if name.startswith("_") or not callable(item) or name in SERIALIZATION:
                    continue
                if inspect.isclass(item) != is_kind:
                    continue
                own = getattr(item, "__name__", name)
                shown = own if getattr(module, own, None) is item else name
                found.setdefault(id(item), f"{module_name}.{shown}")
    return sorted(found.values())


def is_left_out(name: str) -> bool:
    """Whether a row is of Keras 3 alone, and the rows are those of Keras 2."""
    module, own = name.split(".")
    known = {**FUNCTION_MODULES, **CLASS_MODULES}
    return IS_KERAS_2 and not hasattr(known.get(module), own)
