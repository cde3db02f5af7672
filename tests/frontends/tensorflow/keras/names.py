"""The names that the modules of Keras hold, taken from the modules: the tables must have each.

A name that means the same object as an earlier one (`layers.AvgPool1D`, `ops.linalg.qr`) is the
same row.
"""

import inspect

import keras

CLASS_MODULES = {
    "layers": keras.layers,
    "optimizers": keras.optimizers,
    "schedules": keras.optimizers.schedules,
    "losses": keras.losses,
    "metrics": keras.metrics,
    "regularizers": keras.regularizers,
    "constraints": keras.constraints,
    "initializers": keras.initializers,
    "random": keras.random,
}
FUNCTION_MODULES = {
    "layers": keras.layers,
    "ops": keras.ops,
    "image": keras.ops.image,
    "linalg": keras.ops.linalg,
    "nn": keras.ops.nn,
    "numpy": keras.ops.numpy,
    "activations": keras.activations,
    "losses": keras.losses,
    "metrics": keras.metrics,
    "random": keras.random,
}
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
