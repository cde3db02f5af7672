# SPDX-License-Identifier: Apache-2.0
"""`ingot aot`: a module or a model compiled ahead of time, for programs without Python or Ingot.

A folder is a SavedModel, a `.keras` file a Keras model, which TensorFlow reads, and a `.pt2` file
a program of `torch.export`; all else are modules. Writes NAME.o, NAME.h, libNAME.a and libNAME.so;
for WebAssembly, NAME.wasm and NAME.mjs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from ingot.aot.build import AotProgram, compile_aot
from ingot.aot.cpp_header import cpp_header
from ingot.aot.js_module import js_module
from ingot.artifact.metadata import THREADS, WEIGHTS
from ingot.hlo.module import Module
from ingot.tools.programs import loading


@click.command(name="aot")
@click.argument("file", required=False)
@click.option("-o", "--output", default="",
              help="Path without an ending: NAME.o, NAME.h, libNAME.a, libNAME.so.")  # fmt: skip
@click.option("--entry-point", "--entry_point", default="",
              help="Prefix of the C functions; default: the last part of --output.")  # fmt: skip
@click.option("--cpp-class", "--cpp_class", default="",
              help="Also write NAME.hpp with a class as tfcompile's: foo::bar::Net.")  # fmt: skip
@click.option("--level", default="",
              help="CPU levels of x86-64, with commas: plain,avx2,avx512. The program takes the "
              "widest that the CPU has. Default: the widest of this machine.")  # fmt: skip
@click.option("--target-triple", "--target_triple", default="",
              help="LLVM's triple: aarch64-unknown-linux-gnu, wasm32-unknown-unknown; "
              "default: x86-64 Linux.")  # fmt: skip
@click.option("--target-cpu", "--target_cpu", default="",
              help="LLVM's name of a CPU, instead of --level.")  # fmt: skip
@click.option("--target-features", "--target_features", default="",
              help="LLVM's features: +avx2,+fma.")  # fmt: skip
@click.option("--weights", type=click.Choice(WEIGHTS), default="inside", show_default=True,
              help="Where constants are: in the code, in a file, or with the caller.")  # fmt: skip
@click.option("--threads", type=click.Choice(THREADS), default="none", show_default=True,
              help="own: the program has a thread pool beside the caller's threads.")  # fmt: skip
@click.option("--from", "source", type=click.Choice(loading.INPUT_FORMATS),
              help="Format of FILE; default: found out from the data.")  # fmt: skip
@click.option("--signature", "--signature_def_key", default="serving_default", show_default=True,
              help="Which signature of a SavedModel.")  # fmt: skip
@click.option("--tag", "--tag_set", default="serve", show_default=True,
              help="Tags of a SavedModel's graph, with commas between them.")  # fmt: skip
@click.option("--graph", default="", help="Instead of FILE: a frozen GraphDef, .pb or .pbtxt.")
@click.option("--config", default="", help="Of --graph: its feeds and fetches, as for tfcompile.")
@click.option("--out-object", "--out_object", "--out_function_object", default="",
              help="Write the object to this file.")  # fmt: skip
@click.option("--out-header", "--out_header", default="",
              help="Write one header to this file; it has the class of --cpp-class.")  # fmt: skip
@click.option("--dump-fetch-nodes", "--dump_fetch_nodes", is_flag=True,
              help="Print the fetches of --config with commas between them, and stop.")  # fmt: skip
@click.option("--gen-name-to-index", "--gen_name_to_index", type=bool, default=True, hidden=True,
              help="As tfcompile's; the class always has these functions.")  # fmt: skip
def command(
    file: str | None,
    output: str,
    entry_point: str,
    cpp_class: str,
    level: str,
    target_triple: str,
    target_cpu: str,
    target_features: str,
    weights: str,
    threads: str,
    source: str | None,
    signature: str,
    tag: str,
    graph: str,
    config: str,
    out_object: str,
    out_header: str,
    dump_fetch_nodes: bool,
    gen_name_to_index: bool,
) -> int:
    """Compile FILE to an object file, libraries and a header.

    FILE is a module (- is standard input), the folder of a SavedModel, a .keras file, or a .pt2
    file of torch.export.save.
    """
    if bool(file) == bool(graph) or bool(graph) != bool(config):
        raise click.UsageError("give either FILE, or --graph and --config")
    names = _fetch_names(config) if graph else ()
    if dump_fetch_nodes:
        click.echo(",".join(names))
        return 0
    if not (output or out_object or out_header):
        raise click.UsageError("give -o NAME, or --out-object and --out-header")
    symbol = entry_point or Path(output or out_object or out_header).stem
    module = _load(file, source, signature, tag) if file else _load_graph(graph, config)
    program = compile_aot(
        module,
        symbol,
        level,
        triple=target_triple,
        cpu=target_cpu,
        features=target_features,
        weights=weights,
        weights_file=f"{Path(output).name}.weights" if output else "",
        threads=threads,
        result_names=names,
    )
    files: dict[Path, bytes] = {}
    if output:
        files = _files(program, Path(output), cpp_class)
    elif program.weights:
        weights_path = Path(out_object or out_header).with_name(program.metadata.weights_file)
        files[weights_path] = program.weights
    if out_object:
        files[Path(out_object)] = program.library if program.is_wasm else program.object
    if out_header:
        files[Path(out_header)] = _whole_header(program, cpp_class).encode()
    _write(files)
    return 0


def _write(files: Mapping[Path, bytes]) -> None:
    """Write files, and print the path and size of each."""
    for path, data in files.items():
        # As linkers do: a process that has the old library loaded keeps it.
        path.unlink(missing_ok=True)
        loading.write_bytes(data, str(path))
        click.echo(f"{path}: {len(data)} bytes")


def _files(program: AotProgram, path: Path, cpp_class: str) -> dict[Path, bytes]:
    """Return the files of `--output`."""
    header, metadata = f"{path.name}.h", program.metadata
    files = {path.with_name(header): program.header.encode()}
    if program.is_wasm:
        files[path.with_name(f"{path.name}.wasm")] = program.library
        files[path.with_name(f"{path.name}.mjs")] = js_module(metadata).encode()
    else:
        files[path.with_name(f"{path.name}.o")] = program.object
        files[path.with_name(f"lib{path.name}.a")] = program.archive
        files[path.with_name(f"lib{path.name}.so")] = program.library
    if program.weights:
        files[path.with_name(metadata.weights_file)] = program.weights
    if cpp_class:
        text = cpp_header(metadata, cpp_class, header)
        files[path.with_name(f"{path.name}.hpp")] = text.encode()
    return files


def _whole_header(program: AotProgram, cpp_class: str) -> str:
    """Return the header of `--out-header`: the class with the C functions that it calls."""
    if not cpp_class:
        return program.header
    text = cpp_header(program.metadata, cpp_class, "c")
    return text.replace('#include "c"\n', program.header)


def _load_graph(graph: str, config: str) -> Module:
    from ingot.frontends.tensorflow.export.frozen_graphs import load_graph

    return load_graph(graph, config)


def _fetch_names(config: str) -> tuple[str, ...]:
    from ingot.frontends.tensorflow.export.frozen_graphs import fetch_names

    return fetch_names(config)


def _load(file: str, source: str | None, signature: str, tag: str) -> Module:
    """Return the module of a file or folder."""
    is_folder = Path(file).is_dir()
    if source is not None or not (is_folder or file.endswith(".keras")):
        return loading.load(file, source or "")
    # TensorFlow loads for seconds, and need not be installed.
    from ingot.frontends.tensorflow.export import saved_models

    if is_folder:
        return saved_models.load_saved_model(file, signature, tag.split(","))
    return saved_models.load_keras(file)
