# SPDX-License-Identifier: Apache-2.0
"""From IR text to machine code: `compile_object`, `assembly`.

The end of every CPU compilation. The IR is parsed in its own context, verified, run through a
short list of passes (explicit vector IR gains nothing from O3, which costs ten times as much) and
emitted as an ELF object, which is cached; `linking` maps it into the process.

Invariant: IR that does not parse or verify is an `InternalError` with the line. All functions are
thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ingot.llvm.binding import emit, llvm, llvmlite_version, run_passes
from ingot.llvm.cache import ObjectCache, default_cache
from ingot.llvm.headroom import headroom
from ingot.llvm.isolated import emit_isolated
from ingot.llvm.machines import OPTIONS, borrowed_machine
from ingot.llvm.optimization import SHORT, Optimization
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import InternalError
from ingot.support.forking import defers_fork
from ingot.support.later import Later, made
from ingot.support.sources import sources_stamp

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


_layouts: dict[TargetSpec, str] = {}


def _parse(ir_text: str, target: TargetSpec, machine: Any) -> Any:
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(_head(target, machine) + ir_text, context)
        module.verify()
    except RuntimeError as error:
        raise _bad_ir(ir_text, str(error)) from None
    return module


def _head(target: TargetSpec, machine: Any) -> str:
    """Return the target lines of a module as one line, so that line numbers do not change."""
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


@defers_fork
def _emit(ir_text: str, target: TargetSpec, how: Optimization, as_object: bool) -> bytes:
    """Parse, verify, run the passes, and return the object file or the assembly."""
    with headroom(len(ir_text)), borrowed_machine(target, how.level) as machine:
        module = _parse(ir_text, target, machine)
        _run_passes(module, machine, how.passes)
        return emit(machine, module, as_object)


def compile_object(
    ir_text: str,
    target: TargetSpec,
    how: Optimization = SHORT,
    cache: ObjectCache | None = None,
) -> bytes:
    """Return the ELF object of a module; equal inputs come from `cache` (default: the process's).

    Raises InternalError (INGOT0930) with the IR line if LLVM rejects the text.
    """
    store = default_cache() if cache is None else cache
    key = store.key(_settings(target, how.level), ",".join(how.passes), ir_text)
    found = store.get(key)
    if found is None:
        if target.is_foreign:
            found = emit_isolated(ir_text, target, how.level, how.passes)
        else:
            found = emit_object(ir_text, target, how)
        store.put(key, found)
    return found


def emit_object(ir_text: str, target: TargetSpec, how: Optimization) -> bytes:
    """Return the object file of a module, made in this process."""
    return _emit(ir_text, target, how, as_object=True)


def compile_named(
    name: str,
    sources: tuple[str, ...],
    make_text: Callable[[], str],
    target: TargetSpec,
    how: Optimization = SHORT,
) -> Later[bytes]:
    """Return the ELF object of a module whose text follows from its name and Ingot's own packages.

    The text is made, at once, only where the object is not in the process's cache, or those
    packages (`sources`) changed a moment ago. The object of a new text is not begun.
    """
    stamp = sources_stamp(sources)
    if not stamp:
        return Later(partial(compile_object, make_text(), target, how))
    store = default_cache()
    key = store.key(_settings(target, how.level), stamp, name)
    found = store.get(key)
    if found is not None:
        return made(found)
    text = make_text()

    def compiled() -> bytes:
        data = compile_object(text, target, how)
        store.put(key, data)
        return data

    return Later(compiled)


def _settings(target: TargetSpec, opt_level: int) -> str:
    chosen = f"{opt_level}|{' '.join(OPTIONS)}|{llvmlite_version()}"
    return f"{target.triple}|{target.cpu}|{target.features}|{target.contracts}|{chosen}"


def assembly(ir_text: str, target: TargetSpec, how: Optimization = SHORT) -> str:
    """Return the assembly text of a module; for NVPTX this is the PTX that the driver loads."""
    return _emit(ir_text, target, how, as_object=False).decode()


@defers_fork
def optimized_ir(ir_text: str, target: TargetSpec, how: Optimization = SHORT) -> str:
    """Return the IR after LLVM's passes, for people to read."""
    with headroom(len(ir_text)), borrowed_machine(target, how.level) as machine:
        module = _parse(ir_text, target, machine)
        _run_passes(module, machine, how.passes)
        return str(module)
