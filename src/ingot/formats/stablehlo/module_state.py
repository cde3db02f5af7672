# SPDX-License-Identifier: Apache-2.0
"""What the conversion of an MLIR module knows of the whole module: names, types, sizes, meshes.

Below the walk, and below the ops' converters, which ask for it. Invariant: every name is unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingot.formats.stablehlo.attributes import shardy
from ingot.formats.stablehlo.binding import has_quantized_types
from ingot.formats.stablehlo.locations import Locations
from ingot.formats.stablehlo.mesh_shardings import Mesh
from ingot.formats.stablehlo.sizes import Known, Size, Sizes, sizes_of
from ingot.formats.stablehlo.types import Types
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.names import unique_name
from ingot.support.diagnostics import ParseError


class ModuleState:
    """A module being converted.

    Attributes:
        module: the module that is being built.
        functions: MLIR's functions by name.
        types: shapes by MLIR type.
        locations: metadata by MLIR location.
        equal: symbolic sizes that are known to be others.
        reducers: one-op reducers that are already there, by what they do.
        rewritten: computations of ops that MLIR's passes rewrote, by op, types and attributes.
        keep_alive: MLIR modules whose values are in use.
        is_dynamic: whether the entry has arguments of open sizes; calls are then inlined, since a
            function's sizes follow from its operands.
        may_be_quantized: whether there may be quantized types.
        main_mesh: the devices that share the code being converted, when several do; its values are
            annotated then.
        manual_axes: the axes of that mesh along which it is the code of one device.
    """

    def __init__(
        self,
        mlir_module: Any,
        equal: Mapping[str, Size] | None = None,
        *,
        is_divided: bool = False,
    ) -> None:
        self.mlir_module = mlir_module
        self.equal = equal or {}
        self.module = Module(_name(mlir_module))
        self.types = Types()
        self.locations = Locations()
        self.reducers: dict[Any, Computation] = {}
        self.rewritten: dict[Any, Computation] = {}
        self.keep_alive: list[Any] = []
        self.is_dynamic = False
        self.may_be_quantized = has_quantized_types(mlir_module.context)
        self.main_mesh: Mesh | None = None
        self.manual_axes: tuple[str, ...] = ()
        self.functions: dict[str, Any] = {}
        self._computation_names: dict[str, int] = {}
        self._meshes: dict[str, Mesh] = {}
        self._sizes: Known = {}
        for view in mlir_module.body.operations:
            op = view.operation
            if op.name == "func.func":
                self.functions[op.attributes["sym_name"].value] = op
            elif op.name == "sdy.mesh":
                mesh = self._meshes[op.attributes["sym_name"].value] = Mesh(op.attributes["mesh"])
                if is_divided and mesh.axes and self.main_mesh is None:
                    self.main_mesh = mesh

    def sizes_of(self, value: Instruction) -> Sizes | None:
        """Return the elements of an integer instruction; None when they are not known."""
        return sizes_of(value, self._sizes)

    def unique_name(self, name: str) -> str:
        """Return a name that no instruction of the module has."""
        return unique_name(self.module.names, name)

    def new_computation(self, name: str) -> Computation:
        """Return an empty computation of the module; `keep` it when it is complete."""
        made = Computation(unique_name(self._computation_names, name))
        made.module = self.module
        return made

    def keep(self, computation: Computation, root: Instruction) -> Computation:
        """Complete a computation: its root is known, and so are its callees."""
        computation.set_root(root)
        self.module.computations[computation.name] = computation
        return computation

    def mesh(self, sharding: Any) -> Mesh:
        """Return the mesh of a sharding of Shardy's, which names it or says it."""
        found = shardy(sharding, "TensorShardingAttr").mesh_or_ref
        if not hasattr(found, "value"):
            return Mesh(found)
        if found.value not in self._meshes:
            raise ParseError(f"mesh @{found.value} is not in the module", code="INGOT0104")
        return self._meshes[found.value]

    def entry(self) -> Any:
        """Return the entry function: `main`, or the only public one."""
        if "main" in self.functions:
            return self.functions["main"]
        public = [op for op in self.functions.values() if _is_public(op)]
        if len(public) != 1:
            raise ParseError(
                f"the module has no function @main and {len(public)} public ones",
                code="INGOT0121",
                hint="name the entry function @main",
            )
        return public[0]


def _name(mlir_module: Any) -> str:
    attributes = mlir_module.operation.attributes
    return attributes["sym_name"].value if "sym_name" in attributes else "module"


def _is_public(op: Any) -> bool:
    attributes = op.attributes
    return "sym_visibility" not in attributes or attributes["sym_visibility"].value == "public"
