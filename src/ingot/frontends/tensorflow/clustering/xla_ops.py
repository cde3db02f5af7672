# SPDX-License-Identifier: Apache-2.0
"""`Xla*` ops outside of compiled functions, whose kernels have the built-in XLA compile them.

In a graph such an op is a cluster of its own, which must be compiled. Eagerly it is a function with
`jit_compile=True` of the op alone.

Invariant: inside of a function that is compiled as a whole, ops are made as they are without this.
Source: TensorFlow's `compiler/jit/kernels/xla_ops_on_regular_devices.cc`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ingot.frontends.tensorflow.api.modules import (
    context,
    control_flow_util,
    gen_xla_ops,
    ops,
    polymorphic_function,
    tensorflow,
    tf2xla,
)
from ingot.frontends.tensorflow.api.patching import Replace

_PREFIX, _FALLBACK = "xla_", "_eager_fallback"


def watch(replace: Replace, expect_marks: Callable[[], None]) -> None:
    """Replace the functions that make `Xla*` ops.

    Args:
        replace: replaces an attribute of a module.
        expect_marks: is called before such an op is in a graph that clustering may see.
    """

    def make(original: Any) -> Any:
        @functools.cache
        def compiled() -> Any:
            return polymorphic_function.function(original, jit_compile=True, autograph=False)

        @functools.wraps(original)  # TensorFlow keeps an op's dispatchers with the function.
        def run(*args: Any, **kwargs: Any) -> Any:
            if context.executing_eagerly():
                return compiled()(*args, **kwargs)
            if not control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph()):
                expect_marks()
            return original(*args, **kwargs)

        return do_not_convert(run)

    do_not_convert = tensorflow.autograph.experimental.do_not_convert
    originals = {found for name, found in _functions(gen_xla_ops) if name.startswith(_PREFIX)}
    for module in (gen_xla_ops, tf2xla):
        for name, found in _functions(module):
            if found in originals:
                replace(module, name, make)


def _functions(module: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = inspect.getmembers(module, inspect.isfunction)
    return [(name, item) for name, item in found if not name.endswith(_FALLBACK)]
