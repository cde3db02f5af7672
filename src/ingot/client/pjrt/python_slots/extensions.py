# SPDX-License-Identifier: Apache-2.0
"""Python slots of the extensions: layouts and shardings.

The layouts of buffers are native functions (`native_code.layouts`).

Source: pjrt_c_api_layouts_extension.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.client.pjrt.c_api import UNIMPLEMENTED
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.executables import LoadedExecutable
from ingot.client.pjrt.handles import lookup
from ingot.client.pjrt.layouts import layout_address
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.native_code.layouts import RANK_TEXT
from ingot.client.pjrt.python_slots.slots import Slots, slot
from ingot.formats.hlo_proto.sharding import sharding_bytes
from ingot.semantics.call_layouts import Order


class ExtensionSlots(Slots):
    """The slots, over the linked machine code."""

    def __init__(self, native: Native) -> None:
        """Hold the native functions."""
        self.native = native

    def _layout(self, order: Order) -> int:
        """Return the handle of a layout."""
        return layout_address(order) or self._row_major(len(order))

    def _row_major(self, rank: int) -> int:
        found = self.native.call("layout", rank)
        if not found:
            raise PjrtError(UNIMPLEMENTED, RANK_TEXT)
        return found

    @slot(
        "PJRT_Layouts_PJRT_Client_GetDefaultLayout", "PJRT_Layouts_PJRT_Topology_GetDefaultLayout"
    )
    def default_layout(self, args: Any) -> None:
        """Return the layout of a new buffer.

        Raises:
            PjrtError: no array has that many dimensions (UNIMPLEMENTED).
        """
        args.layout = self._row_major(args.num_dims)

    @slot("PJRT_Layouts_PJRT_Executable_GetOutputLayouts")
    def output_layouts(self, args: Any) -> None:
        """Return the layouts of a program's results.

        Raises:
            PjrtError: a result has too many dimensions (UNIMPLEMENTED).
        """
        executable = lookup(args.executable, LoadedExecutable)
        orders = executable.boundary.result_layouts
        args.num_outputs = len(orders)
        args.layouts = self._layouts(executable, "layouts", orders)

    @slot("PJRT_Layouts_PJRT_Executable_GetParameterLayouts")
    def parameter_layouts(self, args: Any) -> None:
        """Return the layouts of its parameters; without them hosts decode the whole program.

        Raises:
            PjrtError: a parameter has too many dimensions (UNIMPLEMENTED).
        """
        executable = lookup(args.executable, LoadedExecutable)
        orders = executable.boundary.parameter_layouts
        args.num_parameters = len(orders)
        args.layouts = self._layouts(executable, "parameter layouts", orders)

    def _layouts(self, executable: LoadedExecutable, name: str, orders: Sequence[Order]) -> int:
        """Return the handles of layouts, cached in the executable as `name`."""
        return executable.once(
            name, lambda: executable.keep_words([self._layout(order) for order in orders])
        )

    @slot("PJRT_Shardings_PJRT_Executable_ParameterShardings")
    def parameter_shardings(self, args: Any) -> None:
        """Return how a program's parameters are divided."""
        executable = lookup(args.executable, LoadedExecutable)
        found = executable.boundary.parameter_shardings
        args.num_parameters, args.shardings, args.sharding_sizes = executable.once(
            "parameter shardings", lambda: self._shardings(executable, found)
        )

    @slot("PJRT_Shardings_PJRT_Executable_OutputShardings")
    def output_shardings(self, args: Any) -> None:
        """Return how a program's results are divided."""
        executable = lookup(args.executable, LoadedExecutable)
        found = executable.boundary.result_shardings
        args.num_outputs, args.shardings, args.sharding_sizes = executable.once(
            "output shardings", lambda: self._shardings(executable, found)
        )

    def _shardings(
        self, executable: LoadedExecutable, shardings: Sequence[str]
    ) -> tuple[int, int, int]:
        """Return count, texts and sizes; zeros for one device, or for no values."""
        if not shardings:
            return 0, 0, 0
        data = [sharding_bytes(sharding) for sharding in shardings]
        texts = executable.keep_words([executable.keep_bytes(item) for item in data])
        return len(data), texts, executable.keep_words([len(item) for item in data])
