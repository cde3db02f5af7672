# SPDX-License-Identifier: Apache-2.0
"""The one registry of flags: every `INGOT_*` environment variable, typed and documented.

A `Flag` is declared once, below; its variable, help text and checks follow from the declaration,
and `docs/flags.md` is written from `ALL_FLAGS`. A value comes from an `override` of this thread
or task, else from what code set for the process (`set_process_values`), else from the environment,
else it is the default. It is looked up at each `value()`, so that it can be changed at any time;
hot paths read it once and keep the value.

Invariant: nothing else in Ingot reads an `INGOT_*` variable.

Example:
    >>> with override(NUM_THREADS, 2):
    ...     NUM_THREADS.value()
    2
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from functools import cache
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ingot.support.diagnostics import FlagError
from ingot.support.forking import ForkLock
from ingot.support.records import record
from ingot.support.text import did_you_mean

T = TypeVar("T")

PREFIX = "INGOT_"

_overrides: ContextVar[Mapping[str, Any]] = ContextVar(
    "ingot_flag_overrides", default=MappingProxyType({})
)


# What code has set for the whole process. It is replaced as a whole, never changed, so that readers
# need no lock; `_lock` is for writers.
_process: Mapping[str, Any] = MappingProxyType({})
_lock = ForkLock()

# The dictionary behind `os.environ`, which itself raises and catches an error for each variable
# that is not set: that takes ten times as long, and a compilation reads thirty.
_VARIABLES: Any = getattr(os.environ, "_data", None) if os.name == "posix" else None

_encoded = cache(os.fsencode)


def environment(variable: str) -> str | None:
    """Return an environment variable, None if it is not set."""
    if _VARIABLES is None:
        return os.environ.get(variable)
    found = _VARIABLES.get(_encoded(variable))
    return None if found is None else os.fsdecode(found)


class IngotWarning(UserWarning):
    """Something that Ingot accepts but that is probably a mistake."""


@record
class Flag(Generic[T]):
    """One flag: `name` in lower case, how to read it from text, its default, and what it does.

    `variable` is the environment variable: `INGOT_` and the name in capitals.
    """

    name: str
    default: T
    parse: Callable[[str], T]
    values: str
    doc: str
    variable: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variable", PREFIX + self.name.upper())

    def value(self) -> T:
        """Return the value in force: an `override`, the process's, the environment's, the default.

        Raises:
            FlagError: INGOT0600, the variable holds something that is not a value of this flag.
        """
        overrides = _overrides.get()
        if self.name in overrides:
            return overrides[self.name]
        if self.name in _process:
            return _process[self.name]
        text = environment(self.variable)
        if text is None:
            return self.default
        return self._parsed(text, f"{self.variable}={text!r}", self.variable)

    def accept(self, value: object) -> T:
        """Return a value that code sets for this flag, parsed like its text in the environment.

        Raises:
            FlagError: INGOT0600, it is not a value of this flag.
        """
        if value is None and self.default is None:
            return self.default
        text = str(int(value)) if isinstance(value, bool) else str(value)
        return self._parsed(text, f"{self.name}={value!r}", self.name)

    def _parsed(self, text: str, given: str, called: str) -> T:
        try:
            return self.parse(text)
        except ValueError as error:
            raise FlagError(
                f"{given} is not a value of this flag",
                notes=(f"{called}: {self.doc}",),
                hint=f"it takes {self.values}",
            ) from error


def state() -> tuple[object, ...]:
    """Return the state that determines all flags' values: overrides and the environment's texts."""
    texts = map(os.environ.get, _names()) if _VARIABLES is None else map(_VARIABLES.get, _keys())
    return (*_overrides.get().items(), *_process.items(), *texts)


def values() -> dict[str, Any]:
    """Return the value of every flag by name, for `override_values` at another time."""
    return {flag.name: flag.value() for flag in ALL_FLAGS}


@contextmanager
def override(flag: Flag[T], value: T) -> Generator[None]:
    """Give `flag` a value in a `with` block, in this thread or task only."""
    with override_values({flag.name: value}):
        yield


@contextmanager
def override_values(values: Mapping[str, Any]) -> Generator[None]:
    """Give flags values by name in a `with` block, in this thread or task only."""
    token = _overrides.set({**_overrides.get(), **values})
    try:
        yield
    finally:
        _overrides.reset(token)


def set_process_values(values: Mapping[str, Any]) -> None:
    """Give flags values by name in all threads; they take precedence over the environment."""
    global _process
    with _lock:
        _process = MappingProxyType({**_process, **values})


def reset_process_values() -> tuple[str, ...]:
    """Undo `set_process_values`; return the names of the flags."""
    global _process
    with _lock:
        names = tuple(_process)
        _process = MappingProxyType(dict[str, Any]())
    return names


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return parse


def _choice(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return parse


def _boolean(text: str) -> bool:
    return _choice("0", "1")(text) == "1"


def _folder(text: str) -> str:
    if not text:
        raise ValueError(text)
    return os.path.expanduser(text)


def _fuel(text: str) -> int | None:
    return _integer(0, 1 << 31)(text)


def default_cache_folder() -> str:
    """Return the folder of compiled objects: `$XDG_CACHE_HOME/ingot`, else `~/.cache/ingot`."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ingot")


DEBUG = Flag(
    "debug",
    0,
    _integer(0, 5),
    "a whole number from 0 to 5",
    "How much of what happens is logged to standard error. 1: each compilation; 2: each pass and "
    "kernel; 3: each rewrite and fusion decision; 4: the programs between passes; 5: buffers, "
    "kernels and LLVM IR too.",
)
CHECKS = 4
"""The value of DEBUG from which passes are checked."""

NUM_THREADS = Flag(
    "num_threads",
    0,
    _integer(0, 4096),
    "a whole number, 0 for as many as this process may run on",
    "Threads that run kernels. Results do not depend on it.",
)
ALLOCATOR_CACHE_BYTES: Flag[int | None] = Flag(
    "allocator_cache_bytes",
    None,
    _integer(0, 1 << 50),
    "a whole number of bytes, not set for a quarter of the machine's memory",
    "How much free memory the runtime keeps for the next outputs and arenas.",
)
CPU_LEVEL = Flag(
    "cpu_level",
    "auto",
    _choice("auto", "avx512", "avx2", "plain"),
    "auto, avx512, avx2 or plain",
    "The instruction set that CPU code is made for; auto takes what this machine has.",
)
CACHE_DIR = Flag(
    "cache_dir",
    default_cache_folder(),
    _folder,
    "a folder",
    "Where compiled objects are kept between processes. Others must not be able to write there: "
    "see security.md.",
)
CACHE = Flag(
    "cache",
    True,
    _boolean,
    "0 or 1",
    "Whether compiled objects are kept on disk.",
)
PROGRAM_CACHE = Flag(
    "program_cache",
    True,
    _boolean,
    "0 or 1",
    "Whether whole programs are kept in that cache too, so that a later process compiles nothing.",
)
CACHE_MB = Flag(
    "cache_mb",
    512,
    _integer(1, 1 << 30),
    "a whole number of MiB",
    "How large the cache on disk may grow; what was not used for longest goes first.",
)
DUMP_TO = Flag(
    "dump_to",
    "",
    str,
    "a folder, `-` for standard output, empty for no dumps",
    "Where the program is written before and after the passes, as XLA's --xla_dump_to does.",
)
FP = Flag(
    "fp",
    "default",
    _choice("exact", "default", "fast"),
    "exact, default or fast",
    "The floating-point licence. exact: each op rounds as written, no rewrite changes a result. "
    "default: a product that is only added to something is rounded once with the sum (fused "
    "multiply-add), and products that a loop adds up may become one product. fast: rewrites may "
    "also regroup sums. In all modes, reductions and matrix products add in vector lanes, in an "
    "order that depends on sizes alone, and functions such as exp are within 2 ulp.",
)
PASS_FUEL: Flag[int | None] = Flag(
    "pass_fuel",
    None,
    _fuel,
    "a whole number, not set for any number",
    "How many pass executions a compilation may make; the others are skipped. Halving it "
    "finds the pass that breaks a program.",
)
REWRITE_FUEL: Flag[int | None] = Flag(
    "rewrite_fuel",
    None,
    _fuel,
    "a whole number, not set for any number",
    "How many times rewrite rules may fire in a compilation: bisecting inside one pass.",
)
PROGRESS = Flag(
    "progress",
    "auto",
    _choice("auto", "off"),
    "auto or off",
    "Whether a compilation that takes more than a second shows a progress line on a terminal. "
    "It needs the extra `cli`.",
)
QUICK_EXIT = Flag(
    "quick_exit",
    True,
    _boolean,
    "0 or 1",
    "Whether a process that ends leaves its objects to the operating system, unless a finalizer "
    "may matter: exit takes 0.05 s instead of 0.2 s to 1.5 s.",
)
GPU = Flag(
    "gpu",
    False,
    _boolean,
    "0 or 1",
    "JAX: the first platform is `cuda`, Ingot's on NVIDIA GPUs. TensorFlow: compiled functions run "
    'on the first GPU. `ingot.compile(device="gpu")` does not ask for this.',
)
CUDA_LIBRARY = Flag(
    "cuda_library",
    "libcuda.so.1",
    str,
    "the name or path of a shared library",
    "The CUDA driver.",
)
GPU_MEMORY_LIMIT = Flag(
    "gpu_memory_limit",
    None,
    _integer(1, 1 << 62),
    "a number of bytes",
    "The most memory that programs take of each GPU; unset: what the GPU has.",
)
COLLECTIVES = Flag(
    "collectives",
    "auto",
    _choice("auto", "sockets", "mpi"),
    "auto, sockets or mpi",
    "How devices of different processes exchange data. auto: what the front end asks for "
    "(jax_cpu_collectives_implementation), else sockets.",
)
MPI_LIBRARY = Flag(
    "mpi_library",
    "",
    str,
    "the path of a shared library",
    "The MPI library; empty: the one that is loaded, else the first that is found.",
)
PROCESS_TIMEOUT = Flag(
    "process_timeout",
    300,
    _integer(1, 86400),
    "a whole number of seconds",
    "How long a process waits for another one, at the start or at a collective, before it fails.",
)
COLLECTIVE_TIMEOUT = Flag(
    "collective_timeout",
    60,
    _integer(1, 86400),
    "a whole number of seconds",
    "How long a device waits for others at a collective before it fails.",
)
FEED_TIMEOUT = Flag(
    "feed_timeout",
    60,
    _integer(1, 86400),
    "a whole number of seconds",
    "How long an infeed waits for the host, and transfer_from_outfeed for the program.",
)
EXIT_TIMEOUT = Flag(
    "exit_timeout",
    10,
    _integer(0, 86400),
    "a whole number of seconds",
    "How long the end of a process waits for JAX programs that still run, before it cuts them off.",
)
RANDOM_SEED = Flag(
    "random_seed",
    0,
    _integer(0, (1 << 63) - 1),
    "a whole number",
    "Where the generator of the `rng` ops of a program begins; read when it is compiled.",
)
ISOLATED_READER = Flag(
    "isolated_reader",
    True,
    _boolean,
    "0 or 1",
    "Whether StableHLO from files and hosts is read in a child process: MLIR ends the process on "
    "some damaged data.",
)
STRICT = Flag(
    "strict",
    False,
    _boolean,
    "0 or 1",
    "TensorFlow, PyTorch: an op that cannot be compiled is an error in a compiled function, as in "
    "XLA; else the framework's own kernel runs it.",
)
ALL_FLAGS: tuple[Flag[Any], ...] = (
    DEBUG,
    NUM_THREADS,
    ALLOCATOR_CACHE_BYTES,
    CPU_LEVEL,
    CACHE_DIR,
    CACHE,
    PROGRAM_CACHE,
    CACHE_MB,
    DUMP_TO,
    FP,
    PASS_FUEL,
    REWRITE_FUEL,
    PROGRESS,
    QUICK_EXIT,
    GPU,
    CUDA_LIBRARY,
    GPU_MEMORY_LIMIT,
    COLLECTIVES,
    MPI_LIBRARY,
    PROCESS_TIMEOUT,
    COLLECTIVE_TIMEOUT,
    FEED_TIMEOUT,
    EXIT_TIMEOUT,
    RANDOM_SEED,
    ISOLATED_READER,
    STRICT,
)


def check_environment() -> None:
    """Warn of every `INGOT_*` variable that no flag reads: each front end calls this once."""
    for text in unknown_variables():
        warnings.warn(text, IngotWarning, stacklevel=2)


def unknown_variables() -> list[str]:
    """Return a text for each `INGOT_*` variable that no flag reads, with the nearest flag."""
    known = {flag.variable for flag in ALL_FLAGS}
    return [
        f"Ingot has no flag {variable}; "
        + (did_you_mean(variable, known) or f"known are {', '.join(sorted(known))}")
        for variable in sorted(os.environ)
        if variable.startswith(PREFIX) and variable not in known
    ]


def markdown() -> str:
    """Return the reference page of all flags."""
    lines = [
        "# Flags",
        "",
        "Each row is one setting. There are three ways to set it; the first of them wins:",
        "",
        '* `with ingot.config(fp="exact"):` for a block, in one thread or task;',
        '* `ingot.config.update(fp="exact")` for the process;',
        "* `INGOT_FP=exact` in the environment.",
        "",
        "[api.md](api.md#settings) shows them. XLA's own `XLA_FLAGS` are read too, see below.",
        "",
        "| in code | variable | takes | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{flag.name}` | `{flag.variable}` | {flag.values} | {flag.doc} |" for flag in ALL_FLAGS
    ]
    return "\n".join(lines) + "\n"


@cache
def _names() -> tuple[str, ...]:
    return tuple(flag.variable for flag in ALL_FLAGS)


@cache
def _keys() -> tuple[bytes, ...]:
    return tuple(map(_encoded, _names()))
