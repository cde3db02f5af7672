# SPDX-License-Identifier: Apache-2.0
"""A frozen GraphDef with tfcompile's config as a module.

What `ingot aot --graph --config` calls. The config says which tensors are arguments (feeds) and
which are results (fetches); what they do not need of the graph is left out.

Invariant: parameter k is feed k of the config, result k is fetch k.
Source: tensorflow/compiler/tf2xla/tf2xla.proto, tensorflow/compiler/aot/compile.cc.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ingot.frontends.tensorflow.api.modules import (
    dtypes,
    graph_pb2,
    message,
    tensorflow,
    text_format,
    tf2xla_pb2,
)
from ingot.frontends.tensorflow.export.freezing import frozen_module
from ingot.frontends.tensorflow.graphs.proto_values import read_shape
from ingot.hlo.module import Module
from ingot.support.diagnostics import ParseError, ResourceError, UnsupportedError


def load_graph(graph: str, config: str) -> Module:
    """Return the part of a frozen graph that a config asks for, as a module.

    Args:
        graph: file of a `GraphDef`, binary or (`.pbtxt`) text.
        config: file of a `tensorflow.tf2xla.Config`, text or (`.pb`) binary. A size of -1 in the
            shape of a feed stays symbolic.

    Raises:
        ResourceError: INGOT0411 a file cannot be read.
        ParseError: a file does not hold what it should, or the graph lacks a tensor of the config.
        UnsupportedError: the config names variables, or an op cannot be compiled.
    """
    definition = _read(graph, graph_pb2.GraphDef())
    wanted = _read(config, tf2xla_pb2.Config())
    if wanted.variable:
        name = wanted.variable[0].node_name
        raise UnsupportedError(
            f"the config {config} names the variable '{name}', and a graph must be frozen",
            hint="freeze the graph, or compile the SavedModel: ingot aot FOLDER",
        )
    if not wanted.fetch:
        raise ParseError(f"the config {config} has no fetch", hint="add fetch { id { ... } }")
    try:
        function = _function(definition, wanted)
    except (KeyError, TypeError, ValueError) as error:
        raise ParseError(
            f"the graph {graph} does not fit the config {config}: {error}",
            hint="node_name and output_index of feeds and fetches are those of the graph",
        ) from error
    return frozen_module(function)


def fetch_names(config: str) -> tuple[str, ...]:
    """Return the name of each fetch of tfcompile's config, the tensor's where it has none.

    Args:
        config: file of a `tensorflow.tf2xla.Config`, text or (`.pb`) binary.

    Raises:
        ResourceError, ParseError: as `load_graph`.
    """
    wanted = _read(config, tf2xla_pb2.Config())
    return tuple(fetch.name or fetch.id.node_name for fetch in wanted.fetch)


def _read(path: str, proto: Any) -> Any:
    """Return a proto with the content of a file; text where it is not binary."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ResourceError(f"{path} cannot be read: {error.strerror}", code="INGOT0411") from error
    try:
        if path.endswith(".pb"):
            proto.ParseFromString(data)
        else:
            text_format.Parse(data.decode(), proto)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ParseError(
            f"{path} is not a {proto.DESCRIPTOR.full_name}: {error}",
            hint="binary protos end in .pb, text in .pbtxt",
        ) from error
    return proto


def _function(definition: Any, config: Any) -> Any:
    """Return the concrete function of feeds and fetches."""
    scratch = tensorflow.Graph()
    with scratch.as_default():
        tensorflow.graph_util.import_graph_def(definition, name="")
    fed = [_tensor_name(feed) for feed in config.feed]
    fetched = [_tensor_name(fetch) for fetch in config.fetch]
    for name in fetched:
        scratch.get_tensor_by_name(name)
    # An argument may have the name of the placeholder that it stands for.
    replaceable = {name.removesuffix(":0") for name in fed}
    rest = graph_pb2.GraphDef(library=definition.library, versions=definition.versions)
    kept = [n for n in definition.node if n.op != "Placeholder" or n.name not in replaceable]
    rest.node.extend(kept)
    names = {node.name for node in kept}
    given: list[Any] = []
    for feed, name in zip(config.feed, fed, strict=True):
        tensor = scratch.get_tensor_by_name(name)
        argument = feed.name or feed.id.node_name
        while argument in names:
            argument += "_"
        names.add(argument)
        kind = dtypes.as_dtype(feed.type) if feed.type else tensor.dtype
        given.append(tensorflow.TensorSpec(read_shape(feed.shape), kind, argument))

    def imported(*arguments: Any) -> Any:
        replaced = dict(zip(fed, arguments, strict=True))
        return tensorflow.graph_util.import_graph_def(
            rest, input_map=replaced, return_elements=fetched, name=""
        )

    return tensorflow.compat.v1.wrap_function(imported, given)


def _tensor_name(item: Any) -> str:
    return f"{item.id.node_name}:{item.id.output_index}"
