# SPDX-License-Identifier: Apache-2.0
"""`parse_stablehlo`: the entry point of the package, and the attributes of the entry function.

Attributes of parameters are shardings, results that take over their buffers (`tf.aliasing_output`)
and buffers that are given away (`jax.buffer_donor`); those of results are memory kinds
(`mhlo.memory_kind`). Both have layouts (`mhlo.layout_mode`).

Example:
    >>> text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    >>> parse_stablehlo(text).entry.root
    %parameter = f32[2]{0} parameter()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ingot.formats.stablehlo.attributes import integer_of, text_of
from ingot.formats.stablehlo.binding import read_mlir
from ingot.formats.stablehlo.contexts import borrowed_context
from ingot.formats.stablehlo.conversion import Walk, kept_text
from ingot.formats.stablehlo.equal_sizes import Equal, Size
from ingot.formats.stablehlo.mesh_shardings import sharding_text
from ingot.formats.stablehlo.propagation import is_divided, propagate
from ingot.hlo.donors import Donor, write_donors
from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape
from ingot.semantics.call_layouts import row_major
from ingot.semantics.device_groups import MOST_DEVICES
from ingot.semantics.entry_layouts import AUTO, layout_text, order_of, write_entry_layouts
from ingot.semantics.memory_kinds import write_memory_kinds
from ingot.support.arguments import bytes_of, encodable
from ingot.support.collector import collector_paused
from ingot.support.diagnostics import ParseError, UnsupportedError
from ingot.support.forking import defers_fork
from ingot.support.records import record
from ingot.support.regex import regex

# Attributes of the MLIR module that HLO's header has, and the value that is not written.
_HEADER = {"mhlo.num_replicas": ("replica_count", 1), "mhlo.num_partitions": ("num_partitions", 1)}

_FROM_BINDINGS = regex(r"nanobind::detail|incompatible function arguments")
"""Part of the message of errors that MLIR's bindings raise for unsupported input."""
_MEMORY_KIND = "mhlo.memory_kind"
_LAYOUT = "mhlo.layout_mode"
_OPEN_SIZES = "jax.uses_shape_polymorphism"
_LAYOUT_OF = {"arg": "parameter", "res": "result"}
_DEFAULT = "default"


@record
class Exported:
    """A program, and properties of its MLIR that HLO does not have.

    Attributes:
        module: the program.
        argument_types: MLIR's types of the entry's arguments.
        has_open_sizes: whether it is made for several sizes.
    """

    module: Module
    argument_types: tuple[str, ...]
    has_open_sizes: bool


def parse_stablehlo(data: str | bytes) -> Module:
    """Return the module of StableHLO, read in this process, which damaged data may kill.

    Use `ingot.load` for data from outside.

    Args:
        data: MLIR text, MLIR bytecode, or a portable artifact.

    Raises:
        ParseError: it is not MLIR (INGOT0120).
        UnsupportedError: jaxlib is missing (INGOT0350), an element type (INGOT0351) or an op
            (INGOT0352) that Ingot does not have.
    """
    return parse_exported(data, lambda _: {}).module


@defers_fork
def parse_exported(
    data: str | bytes, sizes: Callable[[tuple[str, ...]], Mapping[str, Size]]
) -> Exported:
    """Like `parse_stablehlo`, for given sizes of the entry's arguments.

    Args:
        data: as there.
        sizes: maps MLIR's types of the arguments to values of their open sizes: `d2_1` is
            dimension 1 of argument 2.

    Raises:
        ParseError: as there, and errors of `sizes`.
        UnsupportedError: as there.
    """
    data = encodable(data) if isinstance(data, str) else bytes_of(data, "the program")
    with borrowed_context(len(data)) as context:
        try:
            mlir_module = read_mlir(context, data)
            with context:
                attributes = mlir_module.operation.attributes
                entry = Walk(mlir_module).entry()
                types = tuple(str(item) for item in entry.attributes["function_type"].value.inputs)
                is_open = _OPEN_SIZES in attributes and attributes[_OPEN_SIZES].value
            return Exported(convert_module(mlir_module, sizes(types)), types, bool(is_open))
        except (UnicodeDecodeError, RuntimeError, TypeError) as error:
            found = str(error).splitlines()[0]
            if not isinstance(error, UnicodeDecodeError) and not _FROM_BINDINGS.search(found):
                raise
            raise ParseError(
                f"a text in this StableHLO is not UTF-8, or an attribute of a wrong kind: {found}",
                code="INGOT0120",
                hint="the file is damaged",
            ) from error


@defers_fork
def convert_module(mlir_module: Any, sizes: Mapping[str, Size] | None = None) -> Module:
    """Return the HLO of an MLIR module that is already read; `sizes`: see `parse_exported`."""
    equal: dict[str, Size] = dict(sizes or {})
    is_shared = is_divided(mlir_module)
    if is_shared:
        propagate(mlir_module)
    with collector_paused(), mlir_module.context:
        while True:
            try:
                return _convert(Walk(mlir_module, equal, is_divided=is_shared), mlir_module)
            except Equal as found:
                # One symbol less each time.
                equal[found.symbol] = found.size


def _convert(walk: Walk, mlir_module: Any) -> Module:
    module, entry = walk.module, walk.entry()
    module.set_entry(walk.function(entry.attributes["sym_name"].value))
    for name, (header, default) in _HEADER.items():
        attributes = mlir_module.operation.attributes
        count = integer_of(attributes, name) if name in attributes else default
        if not 1 <= count <= MOST_DEVICES:
            raise ParseError(f"'{name}' is {count}, not 1 to {MOST_DEVICES}", code="INGOT0125")
        if count != default:
            module.extra[header] = str(count)
    _read_parameters(walk, entry)
    _read_results(walk, entry)
    _read_memory_kinds(module, _dictionaries(entry, "res_attrs"))
    _read_layouts(module, entry)
    return module


def _dictionaries(entry: Any, name: str) -> list[Any]:
    return list(entry.attributes[name]) if name in entry.attributes else []


def _read_parameters(walk: Walk, entry: Any) -> None:
    """Read the attributes of the entry's arguments."""
    module = walk.module
    aliases: list[Alias] = []
    donors: list[Donor] = []
    single = not module.result_shape.is_tuple
    for number, given in enumerate(_dictionaries(entry, "arg_attrs")):
        parameter = module.entry.parameters[number]
        if "tf.aliasing_output" in given:
            output = integer_of(given, "tf.aliasing_output")
            aliases.append(Alias(() if single else (output,), number))
        elif "jax.buffer_donor" in given:
            donors.append((number, ()))
        extra, sharding = parameter.extra, _sharding(walk, given, parameter.shape)
        if sharding:
            extra["sharding"] = sharding
        if "mhlo.frontend_attributes" in given:
            extra["frontend_attributes"] = kept_text(given["mhlo.frontend_attributes"])
    module.aliases = tuple(aliases)
    write_donors(module, donors)


def _sharding(walk: Walk, given: Any, shape: Shape) -> str:
    """Return the sharding of an argument or result as XLA's text, empty when it has none."""
    if "mhlo.sharding" in given:
        return kept_text(given["mhlo.sharding"])
    if "sdy.sharding" in given:
        sharding = given["sdy.sharding"]
        return sharding_text(sharding, walk.mesh(sharding), shape.dims)
    return ""


def _read_memory_kinds(module: Module, results: list[Any]) -> None:
    """Keep the memory kind of each result; the default is the device's memory."""
    if any(_MEMORY_KIND in given for given in results):
        kinds = (text_of(given, _MEMORY_KIND) if _MEMORY_KIND in given else "" for given in results)
        write_memory_kinds(module, [kind or "device" for kind in kinds])


def _read_layouts(module: Module, entry: Any) -> None:
    """Keep the layouts that the host wants of parameters and results."""
    result = module.result_shape
    shapes = {
        "arg": module.parameter_shapes,
        "res": result.parts,
    }
    given = {kind: _dictionaries(entry, f"{kind}_attrs") for kind in shapes}
    if not any(_LAYOUT in attributes for rows in given.values() for attributes in rows):
        return
    parameters, results = (
        [
            _layout(f"{_LAYOUT_OF[kind]} {number}", rows[number] if rows else {}, shape)
            for number, shape in enumerate(shapes[kind])
        ]
        for kind, rows in given.items()
    )
    plain = [_row_major_text(shape) for row in shapes.values() for shape in row]
    if [*parameters, *results] != plain:
        write_entry_layouts(module, parameters, results)


def _layout(what: str, given: Any, shape: Shape) -> str:
    """Return a layout as text, or `auto`.

    Raises:
        UnsupportedError: it is not an order of the dimensions (INGOT0354).
    """
    text = text_of(given, _LAYOUT) if _LAYOUT in given else _DEFAULT
    if text in (_DEFAULT, "") or not shape.is_array:
        return _row_major_text(shape)
    if text == AUTO:
        return AUTO
    order = order_of(text, shape.rank)
    if order is None:
        raise UnsupportedError(
            f"{what} is wanted in the layout {text}, which is no order of its {shape.rank} "
            "dimensions",
            code="INGOT0354",
            hint="tiles are not for a CPU's memory: leave them out",
        )
    return layout_text(order)


def _row_major_text(shape: Shape) -> str:
    return layout_text(row_major(shape.rank if shape.is_array else 0))


def _read_results(walk: Walk, entry: Any) -> None:
    """Keep the shardings of results on the root, as XLA does.

    A result without one is `{unknown}` if others have one: the compiler may choose. A root that has
    a sharding already, as a parameter or a constraint may, keeps it: the result is a copy.
    """
    entry_computation = walk.module.entry
    root = entry_computation.root
    shapes = root.shape.parts
    given = zip(_dictionaries(entry, "res_attrs"), shapes, strict=False)
    shardings = [_sharding(walk, attributes, shape) for attributes, shape in given]
    if not any(shardings):
        return
    if "sharding" in root.extra:
        root = entry_computation.add("copy", [root], shape=root.shape, metadata=root.metadata)
        entry_computation.set_root(root)
    if not root.shape.is_tuple:
        root.extra["sharding"] = shardings[0]
    else:
        root.extra["sharding"] = "{" + ", ".join(s or "{unknown}" for s in shardings) + "}"
