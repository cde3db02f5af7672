# SPDX-License-Identifier: Apache-2.0
"""From a module to the bytes of an artifact: the middle of `ingot aot`.

It compiles for each level of the target, emits the host program as machine code (never as steps,
which need an interpreter), adds the glue, and joins all objects and constants into one. Invariant:
the object needs only functions of the C and math libraries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ingot.aot.archive import archive_of
from ingot.aot.glue import (
    LIBRARY_METADATA,
    LevelProgram,
    constants_symbol,
    glue_module,
    public_functions,
    status_messages,
)
from ingot.aot.header import c_header
from ingot.aot.linkable import with_sections
from ingot.aot.refusals import inherit_locations, refuse_calls, refuse_computed_sizes
from ingot.aot.relocatable import merge_objects
from ingot.aot.targets import LevelTarget, Target, target_of
from ingot.aot.threads import THREAD_FUNCTIONS
from ingot.aot.wasm_link import Part, link_wasm
from ingot.aot.weights import WeightBlock, joined
from ingot.artifact.abi import OutputInfo, ParamInfo, ProgramInfo
from ingot.artifact.metadata import THREADS, WEIGHTS, ArrayInfo, Metadata
from ingot.artifact.steps import Steps
from ingot.client.compilation import default_context
from ingot.cpu.compiler import CpuProgram, compile_module, host_code
from ingot.hlo.module import Module
from ingot.hlo.verifier import verify
from ingot.host.placed import PlacedModule
from ingot.host.sizes import plan_sizes
from ingot.llvm.elf import ElfObject
from ingot.llvm.isolated import end_child
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import LIBRARY_SYMBOLS
from ingot.llvm.optimization import HOST_PROGRAM
from ingot.llvm.shared_library import link_shared
from ingot.llvm.target import TargetSpec
from ingot.runtime.programs.program import storage_of
from ingot.support.diagnostics import ResourceError, UnsupportedError
from ingot.support.records import record
from ingot.support.regex import regex
from ingot.support.timing import PhaseTimer
from ingot.support.versions import VERSION

MOST_CONSTANT_BYTES = (1 << 31) - (1 << 26)
"""Code addresses constants by offsets of 32 bits."""

GLOBAL_OFFSET_TABLE = "_GLOBAL_OFFSET_TABLE_"
FILE_FUNCTIONS = ("open", "lseek", "close", "mmap", "munmap", "dladdr", "strrchr")
"""Functions of the C library that loading weights from a file needs."""

_NEEDED = ("libc.so.6", "libm.so.6")
_IDENTIFIER = regex(r"[A-Za-z_][A-Za-z0-9_]*")


@record
class AotProgram:
    """A program compiled ahead of time.

    Attributes:
        metadata: its signature, and its target.
        object: an ELF object that exports its C functions and nothing else; empty for WebAssembly.
        library: the same as a shared library, or a WebAssembly module.
        header: their declarations in C.
        weights: the content of the file of weights; empty if they are in the library.
    """

    metadata: Metadata
    object: bytes
    library: bytes
    header: str
    weights: bytes = b""

    @property
    def is_wasm(self) -> bool:
        """Whether it is a WebAssembly module."""
        return not self.object

    @property
    def archive(self) -> bytes:
        """The object as a static archive."""
        return archive_of(self.object, "program.o", public_functions(self.metadata))


def compile_aot(
    module: Module,
    symbol: str,
    level: str = "",
    *,
    triple: str = "",
    cpu: str = "",
    features: str = "",
    weights: str = "inside",
    weights_file: str = "",
    threads: str = "none",
    result_names: Sequence[str] = (),
) -> AotProgram:
    """Compile a module to native code that needs no Python and no Ingot.

    Args:
        module: the program, which is not changed. Its shapes may have symbolic sizes.
        symbol: prefix of the C functions.
        level: CPU levels, names of `CPU_LEVELS` with commas between them; the program runs the
            widest one that the CPU has. Default: the widest of this machine.
        triple: LLVM's triple of the target; default: x86-64 Linux.
        cpu: LLVM's name of a CPU, instead of a level.
        features: LLVM's features, `+avx2,+fma`.
        weights: where constants are: "inside", in a file "beside" it, or from the "caller".
        weights_file: the file's name, for the program to find it; default: `SYMBOL.weights`.
        threads: "none": the program runs on the caller's thread or pool; "own": also on its own.
        result_names: names of the results; default: `result0` and so on.

    Raises:
        VerifyError: the module is not valid HLO.
        UnsupportedError: `symbol` is not an identifier of C, the target is unknown, or the program
            has what an artifact cannot have: calls of outside code, computed sizes.
        ResourceError: INGOT0403 its constants are larger than code can reach.
    """
    _require_symbol(symbol)
    target = target_of(level, triple, cpu, features)
    _require_weights(weights, target)
    _require_threads(threads, target)
    verify(module)
    module = module.clone()
    inherit_locations(module)
    refuse_computed_sizes(module)
    refuse_calls(module)
    try:
        versions = [_Version.of(module, one) for one in target.levels]
        block = joined([version.program.artifact.constants for version in versions])
        # A program without constants has no weights, whatever was asked for.
        weights = weights if block.data else "inside"
        file = "" if weights == "inside" else weights_file or f"{symbol}.weights"
        metadata = _metadata(versions[-1], symbol, target, block, result_names)
        metadata = replace(metadata, weights=weights, weights_file=file, threads=threads)
        return _joined(versions, metadata, block, target)
    finally:
        end_child()


@record
class _Version:
    """The program compiled for one level, with its host program as machine code."""

    program: CpuProgram
    target: LevelTarget
    info: ProgramInfo
    host: bytes

    @staticmethod
    def of(module: Module, target: LevelTarget) -> _Version:
        """Compile."""
        spec = target.spec
        program = compile_module(module.clone(), default_context(), spec, PhaseTimer())
        refuse_calls(program.module)
        info, host = _host(program, spec)
        return _Version(program, target, info, host)

    @property
    def part(self) -> LevelProgram:
        """The program as the glue needs it."""
        return LevelProgram(self.target, self.info)

    def tables(self) -> dict[str, bytes]:
        """Return the tables of kernels, by symbol."""
        tables = self.program.artifact.tables
        return {name: table.tobytes() for name, table in tables.items()}

    @property
    def objects(self) -> tuple[bytes, ...]:
        """The ELF objects."""
        artifact = self.program.artifact
        return (self.host, *artifact.objects, *artifact.parts)


def _require_symbol(symbol: str) -> None:
    if not _IDENTIFIER.fullmatch(symbol):
        raise UnsupportedError(
            f"'{symbol}' cannot be the name of a C function",
            hint="use letters, digits and _, and no digit at the start",
        )


def _require_one_of(option: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise UnsupportedError(
            f"{option} cannot be '{value}'", hint=f"use one of {', '.join(known)}"
        )


def _require_weights(weights: str, target: Target) -> None:
    _require_one_of("weights", weights, WEIGHTS)
    if weights == "beside" and target.architecture == "wasm":
        raise UnsupportedError(
            "WebAssembly has no files, so weights cannot be beside it",
            hint="use --weights=caller, fetch the file, and call SYMBOL_set_weights",
        )


def _require_threads(threads: str, target: Target) -> None:
    _require_one_of("threads", threads, THREADS)
    if threads == "own" and target.architecture == "wasm":
        raise UnsupportedError(
            "a WebAssembly module has no threads of its own",
            hint="leave --threads out, and run several instances in workers",
        )


def _host(program: CpuProgram, target: TargetSpec) -> tuple[ProgramInfo, bytes]:
    """Return the host program as machine code, and the ABI description that fits it."""
    artifact = program.artifact
    if not isinstance(artifact.host, Steps):
        return artifact.info, artifact.host
    module = program.module
    placed = PlacedModule(module, program.assignment, plan_sizes(module), artifact.info)
    text, info = host_code(placed, program.kernels)
    return info, compile_object(text, target, HOST_PROGRAM)


def _metadata(
    version: _Version,
    symbol: str,
    target: Target,
    block: WeightBlock,
    names: Sequence[str],
) -> Metadata:
    info, spec = version.info, target.baseline.spec
    layout = info.sizes_layout
    params = tuple(_array(f"arg{n}", row.name, row) for n, row in enumerate(info.params))
    given = dict(enumerate(names))
    outputs = tuple(
        _array(f"result{n}", given.get(n) or row.name, row) for n, row in enumerate(info.outputs)
    )
    return Metadata(
        symbol,
        VERSION,
        spec.triple,
        spec.cpu,
        spec.features,
        target.level_names,
        params,
        outputs,
        info.num_sizes,
        layout.output_bytes(0),
        layout.output_dims(0),
        len(block.data),
    )


def _array(default: str, name: str, row: ParamInfo | OutputInfo) -> ArrayInfo:
    return ArrayInfo(name or default, row.dtype, storage_of(row.dtype).name, row.dims)


def _joined(
    versions: Sequence[_Version], metadata: Metadata, block: WeightBlock, target: Target
) -> AotProgram:
    """Join code and constants into an object, and link that as a library."""
    parts = [version.part for version in versions]
    glue = compile_object(glue_module(parts, metadata, block, target).text(), target.glue)
    blocks: dict[str, bytes] = {}
    if metadata.weights == "inside" and block.data:
        blocks[constants_symbol(metadata.symbol)] = block.data
    tables = [version.tables() for version in versions]
    _require_reach([blocks, *tables])
    header = c_header(status_messages([part.info for part in parts], metadata), metadata)
    weights = b"" if metadata.weights == "inside" else block.data
    public = public_functions(metadata)
    if target.architecture == "wasm":
        (version,), (table,), (part,) = versions, tables, parts
        objects = [Part(glue), *(Part(data, part.prefix) for data in version.objects)]
        everything = blocks | {part.prefix + name: data for name, data in table.items()}
        module = link_wasm(objects, everything, {name: name for name in public})
        return AotProgram(metadata, b"", module, header, weights)
    levels = [
        merge_objects(version.objects, table, prefix=part.prefix)
        for version, part, table in zip(versions, parts, tables, strict=True)
    ]
    objects = [glue, *levels]
    _require_library_functions(objects, blocks)
    merged = merge_objects(objects, blocks, public)
    library = _library(merge_objects(objects, blocks), metadata)
    return AotProgram(metadata, merged, library, header, weights)


def _library(data: bytes, metadata: Metadata) -> bytes:
    """Return the shared library of an object."""
    has_threads = metadata.threads == "own"
    # Before glibc 2.34 some functions were in libraries of their own; later these are empty.
    older = ("libpthread.so.0",) * has_threads
    older += ("libdl.so.2",) * (metadata.weights == "beside")
    exports = [*public_functions(metadata), LIBRARY_METADATA]
    name = f"lib{metadata.symbol}.so"
    made = link_shared(data, name, (*_NEEDED, *older), exports, stays=has_threads)
    return with_sections(made)


def _require_reach(blocks: Sequence[Mapping[str, bytes]]) -> None:
    """Raise if data is larger than code can address."""
    size = sum(len(data) for each in blocks for data in each.values())
    if size > MOST_CONSTANT_BYTES:
        raise ResourceError(
            f"the constants of the program have {size} bytes, and {MOST_CONSTANT_BYTES} are the "
            "most in an artifact",
            code="INGOT0403",
            hint="put them in a file: --weights=beside",
        )


def _require_library_functions(objects: Sequence[bytes], blocks: Collection[str]) -> None:
    """Raise unless the objects define all that they call besides the C and math libraries."""
    read = [ElfObject(data) for data in objects]
    known = {name for one in read for name in one.defined} | set(blocks)
    known |= {*LIBRARY_SYMBOLS, *FILE_FUNCTIONS, *THREAD_FUNCTIONS, GLOBAL_OFFSET_TABLE}
    needed = dict.fromkeys(name for one in read for name in one.undefined)
    missing = [name for name in needed if name not in known]
    if missing:
        raise UnsupportedError(
            f"the program calls {', '.join(missing)}, which cannot be in an artifact",
            hint="compile it with ingot.compile, and report this",
        )
