# SPDX-License-Identifier: Apache-2.0
"""From a module to the bytes of an artifact: the middle of `ingot aot`.

Compiles for a CPU level, emits the host program as machine code (never as steps, which a runtime
would have to take apart), adds the glue, and joins all objects and constants to one. Invariant: the
object needs nothing but functions of the C and math libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import ingot
from ingot.aot.archive import archive_of
from ingot.aot.glue import LIBRARY_METADATA, constants_symbol, glue_module, public_functions
from ingot.aot.header import c_header
from ingot.aot.linkable import with_sections
from ingot.aot.relocatable import merge_objects
from ingot.artifact.abi import OutputInfo, ParamInfo, ProgramInfo
from ingot.artifact.metadata import ArrayInfo, Metadata
from ingot.artifact.steps import Steps
from ingot.client.compile import default_context
from ingot.cpu.compiler import HOST_PROGRAM, CpuProgram, compile_module, host_code
from ingot.cpu.sizes import plan_sizes
from ingot.hlo.custom_calls import call_sites
from ingot.hlo.module import Module
from ingot.hlo.size_definitions import defines_sizes
from ingot.hlo.verifier import verify
from ingot.llvm.elf import ElfObject
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import LIBRARY_SYMBOLS
from ingot.llvm.shared_library import link_shared
from ingot.llvm.target import CPU_LEVELS, TargetSpec, host_levels
from ingot.runtime.program import storage_of
from ingot.support.diagnostics import ResourceError, UnsupportedError
from ingot.support.records import record
from ingot.support.timing import PhaseTimer

MOST_CONSTANT_BYTES = (1 << 31) - (1 << 26)
"""Code reaches constants by distances of 32 bits."""

GLOBAL_OFFSET_TABLE = "_GLOBAL_OFFSET_TABLE_"
_NEEDED = ["libc.so.6", "libm.so.6"]
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@record
class AotProgram:
    """A program compiled ahead of time.

    Attributes:
        metadata: its signature, and what it was compiled for.
        object: an ELF object that exports its C functions and nothing else.
        library: the same as a shared library.
        header: their declarations in C.
    """

    metadata: Metadata
    object: bytes
    library: bytes
    header: str

    @property
    def archive(self) -> bytes:
        """The object as a static archive."""
        return archive_of(self.object, "program.o", public_functions(self.metadata))


def compile_aot(module: Module, symbol: str, level: str = "") -> AotProgram:
    """Compile a module to native code that needs no Python and no Ingot.

    Args:
        module: the program, which is not changed. Its shapes may have symbolic sizes.
        symbol: prefix of the C functions.
        level: CPU level, a name of `CPU_LEVELS`; default: the widest of this machine.

    Raises:
        VerifyError: the module is not valid HLO.
        UnsupportedError: `symbol` is no identifier of C, there is no such level, or something in
            the program cannot be in an artifact: calls of code outside, sizes that it computes.
        ResourceError: INGOT0403 its constants are larger than code can reach.
    """
    _require_symbol(symbol)
    verify(module)
    chosen, target = _target(level)
    if defines_sizes(module):
        raise UnsupportedError(
            f"module '{module.name}' computes sizes of its arrays, which an artifact cannot yet",
            hint="give such arrays a static bound, or compile the parts before and after alone",
        )
    _refuse_calls(module)
    program = compile_module(module.clone(), default_context(), target, PhaseTimer())
    _refuse_calls(program.module)
    info, host = _host(program, target)
    metadata = _metadata(program, info, symbol, chosen, target)
    return _joined(program, info, host, metadata)


def _require_symbol(symbol: str) -> None:
    if not _IDENTIFIER.fullmatch(symbol):
        raise UnsupportedError(
            f"'{symbol}' cannot be the name of a C function",
            hint="use letters, digits and _, and no digit at the start",
        )


def _target(level: str) -> tuple[str, TargetSpec]:
    chosen = level or host_levels()[0]
    if chosen not in CPU_LEVELS:
        raise UnsupportedError(
            f"there is no CPU level '{chosen}'", hint=f"use one of {', '.join(CPU_LEVELS)}"
        )
    # Not `TargetSpec.at_level`, which adds what this machine happens to have.
    row = CPU_LEVELS[chosen]
    return chosen, TargetSpec(TargetSpec.at_level(chosen).triple, row.cpu, row.features)


def _refuse_calls(module: Module) -> None:
    """Raise for the first call of code that is not in the program: LAPACK, Python, FFI."""
    for site in call_sites(module):
        raise UnsupportedError(
            f"'{site.target}' cannot be in an artifact: it is code outside the compiled program",
            op_type="custom-call",
            op_name=site.op_name,
            location=site.location,
            hint="compute this part before or after the compiled program",
        )


def _host(program: CpuProgram, target: TargetSpec) -> tuple[ProgramInfo, bytes]:
    """Return the host program as machine code, and the ABI description that fits it."""
    artifact = program.artifact
    if not isinstance(artifact.host, Steps):
        return artifact.info, artifact.host
    module = program.module
    text, info = host_code(
        module, program.assignment, program.kernels, target, plan_sizes(module), artifact.info
    )
    return info, compile_object(text, target, HOST_PROGRAM)


def _metadata(
    program: CpuProgram, info: ProgramInfo, symbol: str, level: str, target: TargetSpec
) -> Metadata:
    layout = info.sizes_layout
    params = tuple(_array(f"arg{n}", row.name, row) for n, row in enumerate(info.params))
    outputs = tuple(_array(f"result{n}", row.name, row) for n, row in enumerate(info.outputs))
    return Metadata(
        symbol,
        ingot.__version__,
        target.triple,
        target.cpu,
        target.features,
        level,
        params,
        outputs,
        info.num_sizes,
        layout.output_bytes(0),
        layout.output_dims(0),
        len(program.artifact.constants),
    )


def _array(default: str, name: str, row: ParamInfo | OutputInfo) -> ArrayInfo:
    return ArrayInfo(name or default, row.dtype, storage_of(row.dtype).name, row.dims)


def _joined(program: CpuProgram, info: ProgramInfo, host: bytes, metadata: Metadata) -> AotProgram:
    """Join code and constants to an object, and that to a library."""
    # The glue is for any CPU: it says whether this one runs the rest.
    glue = compile_object(glue_module(info, metadata).text(), _target("plain")[1])
    objects = [glue, host, *program.artifact.objects]
    blocks = _blocks(program, metadata)
    _require_library_functions(objects, blocks)
    public = public_functions(metadata)
    merged = merge_objects(objects, blocks, public)
    name = f"lib{metadata.symbol}.so"
    everything = merge_objects(objects, blocks)
    library = with_sections(link_shared(everything, name, _NEEDED, [*public, LIBRARY_METADATA]))
    return AotProgram(metadata, merged, library, c_header(info, metadata))


def _blocks(program: CpuProgram, metadata: Metadata) -> dict[str, bytes]:
    """Return the data that the code refers to: constants, and the tables of kernels."""
    constants = program.artifact.constants
    blocks = {constants_symbol(metadata.symbol): constants} if constants else {}
    for kernel in program.kernels.compiled.values():
        blocks |= {name: table.tobytes() for name, table in kernel.emitted.tables.items()}
    size = sum(map(len, blocks.values()))
    if size > MOST_CONSTANT_BYTES:
        raise ResourceError(
            f"the constants of the program have {size} bytes, and {MOST_CONSTANT_BYTES} are the "
            "most in an artifact",
            code="INGOT0403",
            hint="make the weights parameters, which the caller gives",
        )
    return blocks


def _require_library_functions(objects: Sequence[bytes], blocks: Collection[str]) -> None:
    """Raise unless the objects define what they call, but for the C and math libraries."""
    read = [ElfObject(data) for data in objects]
    known = {name for one in read for name in one.defined} | set(blocks) | set(LIBRARY_SYMBOLS)
    needed = dict.fromkeys(name for one in read for name in one.undefined)
    missing = [name for name in needed if name not in known and name != GLOBAL_OFFSET_TABLE]
    if missing:
        raise UnsupportedError(
            f"the program calls {', '.join(missing)}, which cannot be in an artifact",
            hint="compile it with ingot.compile, and report this",
        )
