# SPDX-License-Identifier: Apache-2.0
"""Runs a Python program as `python program.py` does, with Ingot behind TensorFlow's compilation.

`python -m ingot` and the commands that take Python programs (`scripts`) use it. `sys.argv`,
`__main__`, `sys.path[0]` and the exit status are those of plain Python. The one difference: as soon
as the program has imported TensorFlow, the front end is enabled.

Invariant: no part of the compiler is imported before the program asks for TensorFlow.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import io
import os
import runpy
import sys
import types
from contextlib import AbstractContextManager

from ingot.support.import_hooks import AfterImport


class EnableAfterImport(AfterImport):
    """Enables a front end right after its framework's package was imported.

    Where the program imports the front end first, and that the framework, it is enabled once the
    import of the front end is through.
    """

    def __init__(self, framework: str, front_end: str) -> None:
        """Wait for the import of `framework`; `front_end` has the function `enable`."""
        super().__init__((framework, front_end))
        self._framework = framework
        self._front_end = front_end

    def during(self) -> AbstractContextManager[None]:
        """Import a framework without collections: TensorFlow's modules take 0.5 s of them."""
        from ingot.support.collector import importing

        return importing()

    def imported(self, module: types.ModuleType) -> None:
        """Enable the front end, unless its own import is still running."""
        spec = getattr(sys.modules.get(self._front_end), "__spec__", None)
        is_underway = module.__name__ == self._framework and getattr(spec, "_initializing", False)
        if is_underway or self._framework not in sys.modules or self not in sys.meta_path:
            return
        sys.meta_path.remove(self)
        self._enable()

    def _enable(self) -> None:
        """Enable the front end; a framework that it does not support is imported all the same.

        Where nothing but Ingot may compile (`INGOT_STRICT=1`), that is an error.
        """
        from ingot.support.diagnostics import IngotError, UnsupportedError
        from ingot.support.flags import STRICT

        try:
            importlib.import_module(self._front_end).enable()
        except Exception as error:
            is_known = isinstance(error, UnsupportedError)
            if STRICT.value() or (isinstance(error, IngotError) and not is_known):
                raise
            text = str(error) if is_known else self._strange(error)
            print(f"ingot: the program runs without Ingot: {text}", file=sys.stderr)

    def _strange(self, error: Exception) -> str:
        """Return the message for a framework with which the front end failed unexpectedly."""
        version = getattr(sys.modules.get(self._framework), "__version__", "of no known version")
        return (
            f"{self._framework} {version} is not as Ingot knows it: {type(error).__name__}: "
            f"{error}\n  hint: `ingot doctor` says which series are tested"
        )


def run_file(file: str) -> None:
    """Run a Python file as `__main__`."""
    path = os.path.abspath(file)
    with io.open_code(path) as stream:
        code = compile(stream.read(), path, "exec")
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    module = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    values = {"__file__": path, "__loader__": loader, "__cached__": None}
    module.__dict__.update(values)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def run_module(name: str) -> None:
    """Run a module as `__main__`."""
    _set_first_path(os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _set_first_path(directory: str) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = directory


def run_program(arguments: list[str], *, is_module: bool = False) -> int:
    """Run a Python program with Ingot behind `jit_compile=True`; return its exit status.

    Args:
        arguments: the file or the module, and the program's own arguments.
        is_module: whether the first argument is a module's name.
    """
    sys.argv = arguments
    sys.meta_path.insert(0, EnableAfterImport("tensorflow", "ingot.tensorflow"))
    try:
        (run_module if is_module else run_file)(arguments[0])
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        # As plain Python shows it: without our own frames.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0
