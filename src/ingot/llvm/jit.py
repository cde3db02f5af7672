"""From IR text to machine code: `compile_object`, `link_object`, `assembly`.

The end of every CPU compilation. The IR is parsed in its own context, verified, run through a
short list of passes (explicit vector IR gains nothing from O3, which costs ten times as much) and
emitted as an ELF object; the object is cached; LLJIT with JITLink maps it into the process.

Invariant: what can be wrong is found before a call: IR that does not parse or verify, and symbols
that nobody defines, are `InternalError`s with the line or the name. All functions are thread-safe.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ingot.llvm.binding import emit, llvm, run_passes
from ingot.llvm.cache import ObjectCache, default_cache
from ingot.llvm.symbols import read_symbols
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import InternalError
from ingot.support.sources import sources_stamp

__all__ = ["Library", "TargetSpec", "assembly", "compile_object", "compile_objects", "link_object"]

PASSES: dict[str, str] = {
    "inline": "add_always_inliner_pass",
    "sroa": "add_sroa_pass",
    "instcombine": "add_instruction_combine_pass",
    "simplifycfg": "add_simplify_cfg_pass",
    "unroll": "add_loop_unroll_pass",
    "gvn": "add_new_gvn_pass",
    "dce": "add_aggressive_dce_pass",
    "dse": "add_dead_store_elimination_pass",
    "globaldce": "add_global_dead_code_eliminate_pass",
    "loop_simplify": "add_loop_simplify_pass",
    "lcssa": "add_lcssa_pass",
    "loop_rotate": "add_loop_rotate_pass",
    "constant_merge": "add_constant_merge_pass",
}
"""Pass names that `compile_object` accepts, and llvmlite's method that adds each."""

SHORT_PASSES = ("inline", "sroa", "instcombine", "simplifycfg")
"""Enough for code that is written with helper functions: 0.25 ms where O3 takes 1.9."""

OPTIONS = ("-disable-lsr", "-post-RA-scheduler=false")
"""LLVM's own options, for the whole process. Loops here carry few addresses and processors order
instructions themselves: both passes took a fifth of code generation and made nothing faster."""

LIBRARY_SYMBOLS = (
    *("memcpy", "memmove", "memset", "memcmp", "bcmp", "malloc", "free", "aligned_alloc"),
    *("fma", "fmaf", "fmod", "fmodf", "sched_yield", "syscall", "clock_gettime"),
    *("floor", "floorf", "ceil", "ceilf", "trunc", "truncf", "rint", "rintf"),
    *("nearbyint", "nearbyintf", "roundeven", "roundevenf", "lgamma", "lgammaf"),
)
"""C and libm functions that LLVM may call on its own or that programs may import by name."""

_machines: dict[tuple[TargetSpec, int], list[Any]] = {}
_machines_lock = threading.Lock()
_layouts: dict[TargetSpec, str] = {}
_names = itertools.count()
_link_lock = threading.Lock()
_initialize_lock = threading.Lock()
_initialized = False


def _initialize() -> None:
    global _initialized
    with _initialize_lock:
        if not _initialized:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            llvm.initialize_native_asmparser()
            for option in OPTIONS:
                llvm.set_option("ingot", option)
            _initialized = True


@contextmanager
def _borrowed_machine(target: TargetSpec, opt_level: int) -> Generator[Any]:
    """Lend a target machine to one compilation: making one is slow, sharing one is not safe."""
    with _machines_lock:
        idle = _machines.setdefault((target, opt_level), [])
        machine = idle.pop() if idle else None
    if machine is None:
        machine = _make_machine(target, opt_level)
    yield machine
    with _machines_lock:
        idle.append(machine)


def _target_of(triple: str) -> Any:
    """Return LLVM's target; those that are not this machine's make every compilation slower."""
    _initialize()
    try:
        return llvm.Target.from_triple(triple)
    except RuntimeError:
        with _initialize_lock:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(triple)


def _make_machine(target: TargetSpec, opt_level: int) -> Any:
    return _target_of(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=opt_level,
        reloc="pic",
        codemodel="small" if target.architecture == "x86" else "default",
        jit=target.architecture == "x86",
    )


def _parse(ir_text: str, target: TargetSpec, machine: Any) -> Any:
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(_head(target, machine) + ir_text, context)
        module.verify()
    except RuntimeError as error:
        raise _bad_ir(ir_text, str(error)) from None
    return module


def _head(target: TargetSpec, machine: Any) -> str:
    """Return what a module says of its target, on one line: lines keep their numbers."""
    if target not in _layouts:
        _layouts[target] = str(machine.target_data)
    return f'target triple = "{target.triple}" target datalayout = "{_layouts[target]}" '


def _bad_ir(ir_text: str, message: str) -> InternalError:
    """Return the error for IR that LLVM rejects, with the IR's own line where LLVM names one."""
    notes: list[str] = []
    for line in message.splitlines():
        head, _, rest = line.partition("<string>:")
        number = rest.partition(":")[0]
        if not head and number.isdigit():
            lines = ir_text.splitlines()
            at = int(number) - 1
            notes.extend(f"IR line {row + 1}: {lines[row]}" for row in (at - 1, at) if row >= 0)
    return InternalError(
        f"LLVM rejects generated IR: {message.strip()}", code="INGOT0930", notes=tuple(notes)
    )


def _run_passes(module: Any, machine: Any, passes: Sequence[str]) -> None:
    if not passes:
        return
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    manager = llvm.create_new_module_pass_manager()
    for name in passes:
        method = PASSES.get(name)
        if method is None:
            raise InternalError(f"there is no LLVM pass '{name}' in jit.PASSES")
        getattr(manager, method)()
    run_passes(manager, module, builder)


def _emit(
    ir_text: str, target: TargetSpec, opt_level: int, passes: Sequence[str], as_object: bool
) -> bytes:
    """Parse, verify, run the passes, and return the object file or the assembly."""
    with _borrowed_machine(target, opt_level) as machine:
        module = _parse(ir_text, target, machine)
        _run_passes(module, machine, passes)
        return emit(machine, module, as_object)


def compile_object(
    ir_text: str,
    target: TargetSpec,
    opt_level: int = 2,
    passes: Sequence[str] = SHORT_PASSES,
    cache: ObjectCache | None = None,
) -> bytes:
    """Return the ELF object of a module; equal inputs come from `cache` (default: the process's).

    Raises InternalError (INGOT0930) with the IR line if LLVM rejects the text.
    """
    store = default_cache() if cache is None else cache
    key = store.key(_settings(target, opt_level), ",".join(passes), ir_text)
    found = store.get(key)
    if found is None:
        found = _emit(ir_text, target, opt_level, passes, as_object=True)
        store.put(key, found)
    return found


def compile_named(
    name: str, sources: tuple[str, ...], make_text: Callable[[], str], target: TargetSpec
) -> bytes:
    """Return the ELF object of a module whose text follows from its name and Ingot's own packages.

    The text is made only where the object is not in the process's cache, or those packages
    (`sources`) changed a moment ago.
    """
    stamp = sources_stamp(sources)
    if not stamp:
        return compile_object(make_text(), target)
    store = default_cache()
    key = store.key(_settings(target, 2), stamp, name)
    found = store.get(key)
    if found is None:
        found = compile_object(make_text(), target)
        store.put(key, found)
    return found


def _settings(target: TargetSpec, opt_level: int) -> str:
    version = ".".join(map(str, llvm.llvm_version_info))
    chosen = f"{opt_level}|{' '.join(OPTIONS)}|{version}"
    return f"{target.triple}|{target.cpu}|{target.features}|{chosen}"


def compile_later(
    ir_text: str,
    target: TargetSpec,
    *,
    opt_level: int = 2,
    passes: Sequence[str],
    in_background: bool,
) -> Callable[[], bytes]:
    """Begin to compile a module; return what waits for its object.

    Without `in_background` the work is done by the call that waits.
    """
    if not in_background:
        return lambda: compile_object(ir_text, target, opt_level, passes)
    # A thread of its own, not a pool: a pool would not live on in a forked child.
    pool = ThreadPoolExecutor(1)
    job = pool.submit(compile_object, ir_text, target, opt_level, passes)
    pool.shutdown(wait=False)
    return job.result


def usable_cpus() -> int:
    """Return how many CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compile_objects(
    ir_texts: Iterable[str],
    target: TargetSpec,
    opt_level: int = 2,
    passes: Sequence[str] = SHORT_PASSES,
    threads: int | None = None,
) -> list[bytes]:
    """Return the object of each module, in order; `threads` threads (default: one per core)."""
    texts = list(ir_texts)
    workers = min(len(texts), threads or usable_cpus())
    if workers <= 1:
        return [compile_object(text, target, opt_level, passes) for text in texts]
    with ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(compile_object, text, target, opt_level, passes) for text in texts]
        return [job.result() for job in jobs]


def assembly(
    ir_text: str,
    target: TargetSpec,
    opt_level: int = 2,
    passes: Sequence[str] = SHORT_PASSES,
) -> str:
    """Return the assembly text of a module; for NVPTX this is the PTX that the driver loads."""
    return _emit(ir_text, target, opt_level, passes, as_object=False).decode()


def optimized_ir(ir_text: str, target: TargetSpec, passes: Sequence[str] = SHORT_PASSES) -> str:
    """Return the IR after `passes`, for people to read."""
    with _borrowed_machine(target, 2) as machine:
        module = _parse(ir_text, target, machine)
        _run_passes(module, machine, passes)
        return str(module)


class Library:
    """Code mapped into the process; it stays mapped as long as this object lives."""

    __slots__ = ("_addresses", "_owners", "_tracker", "name")

    def __init__(
        self, name: str, addresses: Mapping[str, int], tracker: Any, owners: tuple[object, ...]
    ) -> None:
        """Hold the linked code and `owners`; `link_object` is the caller."""
        self.name = name
        self._addresses = dict(addresses)
        self._tracker = tracker
        self._owners = owners

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that the library defines."""
        return tuple(self._addresses)

    def address(self, symbol: str) -> int:
        """Return the address of a symbol that one of the objects defines."""
        found = self._addresses.get(symbol)
        if found is None:
            raise InternalError(
                f"library '{self.name}' has no symbol '{symbol}'",
                notes=(f"it defines {', '.join(self._addresses) or 'nothing'}",),
            )
        return found

    def function(self, symbol: str, result: Any, *params: Any) -> Callable[..., Any]:
        """Return a ctypes function for a symbol; it keeps the library alive."""
        function: Any = ctypes.CFUNCTYPE(result, *params)(self.address(symbol))
        function.library = self
        return function


def link_object(
    objects: Sequence[bytes],
    imports: Mapping[str, int] | None = None,
    owners: tuple[object, ...] = (),
) -> Library:
    """Map ELF objects into the process; `imports` gives addresses of symbols they need.

    `owners` are what must live as long as the library: what lies at those addresses.
    The C and libm functions of `LIBRARY_SYMBOLS` are found without being given. Raises
    InternalError (INGOT0931) naming the symbols that nobody defines.
    """
    given = dict(imports or {})
    defined: list[str] = []
    needed: dict[str, None] = {}
    for data in objects:
        symbols = read_symbols(data)
        defined.extend(symbols.defined)
        needed.update(dict.fromkeys(symbols.undefined))
    bound = _bind([name for name in needed if name not in set(defined)], given)
    with _link_lock:
        name = f"ingot{next(_names)}"
        builder = llvm.JITLibraryBuilder()
        for data in objects:
            builder.add_object_img(data)
        for symbol, address in bound.items():
            builder.import_symbol(symbol, address)
        for symbol in defined:
            builder.export_symbol(symbol)
        try:
            tracker = builder.link(_jit(), name)
        except RuntimeError as error:
            raise InternalError(f"cannot link '{name}': {error}", code="INGOT0931") from None
    return Library(name, {symbol: tracker[symbol] for symbol in defined}, tracker, owners)


def _bind(names: Sequence[str], given: Mapping[str, int]) -> dict[str, int]:
    """Return an address for each of `names`."""
    bound: dict[str, int] = {}
    missing: list[str] = []
    for name in names:
        if name == "_GLOBAL_OFFSET_TABLE_":
            continue
        address = given.get(name) or _library_address(name)
        if address:
            bound[name] = address
        else:
            missing.append(name)
    if missing:
        raise InternalError(
            f"unresolved symbols: {', '.join(missing)}",
            code="INGOT0931",
            hint="give their addresses to link_object, or emit code that does not need them",
        )
    return bound


def _library_address(name: str) -> int:
    """Return the address of a C or libm function that programs may use, or 0."""
    if name not in LIBRARY_SYMBOLS:
        return 0
    for library in _system_libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


_libraries: list[ctypes.CDLL] = []


def _system_libraries() -> list[ctypes.CDLL]:
    with _initialize_lock:
        if not _libraries:
            _libraries.extend([ctypes.CDLL(None), ctypes.CDLL("libm.so.6")])
    return _libraries


_lljit: Any = None


def _jit() -> Any:
    """Return the process's one LLJIT; it is never destroyed, because code may run until exit."""
    global _lljit
    if _lljit is None:
        machine = _make_machine(TargetSpec.host(), 2)
        _lljit = llvm.create_lljit_compiler(machine, use_jit_link=True)
    return _lljit
