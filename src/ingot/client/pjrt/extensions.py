"""Python slots of the extensions: layouts and shardings.

All layouts are row-major, so a layout is its rank; its text is XLA's, `{1,0}`.

Source: pjrt_c_api_layouts_extension.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.client.pjrt.executables import LoadedExecutable
from ingot.client.pjrt.handles import Handle, lookup
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.records import BUFFER
from ingot.client.pjrt.slots import Slots, slot
from ingot.formats.hlo_proto.sharding import write_sharding as sharding_message
from ingot.formats.hlo_proto.wire import encode
from ingot.passes.spmd.sharding import Sharding
from ingot.runtime.layout import Field, Record

_LAYOUT = Record("IngotPjrtLayout", Field("text", "ptr"), Field("text_size", "i64"))


class Layout(Handle):
    """The row-major layout of a rank."""

    def __init__(self, rank: int) -> None:
        """Write it as XLA does."""
        super().__init__(_LAYOUT)
        order = ",".join(str(axis) for axis in range(rank)[::-1])
        self.set_text("text", f"{{{order}}}")


class ExtensionSlots(Slots):
    """The slots, over the linked machine code."""

    def __init__(self, native: Native) -> None:
        """Start with no layouts."""
        self.native = native
        self._layouts: dict[int, Layout] = {}

    def _layout(self, rank: int) -> int:
        if rank not in self._layouts:
            self._layouts[rank] = Layout(rank)
        return self._layouts[rank].address

    @slot("PJRT_Layouts_MemoryLayout_Destroy")
    def layout_destroy(self, args: Any) -> None:
        """There is one per rank, which stays."""

    @slot("PJRT_Layouts_MemoryLayout_Serialize")
    def layout_serialize(self, args: Any) -> None:
        """Give the text of a layout."""
        layout = lookup(args.layout, Layout)
        args.serialized_bytes = layout.structure.text
        args.serialized_bytes_size = layout.structure.text_size
        args.serialized_layout = layout.address
        args.serialized_layout_deleter = self.native.address("ingot_pjrt_nothing")

    @slot(
        "PJRT_Layouts_PJRT_Client_GetDefaultLayout", "PJRT_Layouts_PJRT_Topology_GetDefaultLayout"
    )
    def default_layout(self, args: Any) -> None:
        """Give the layout of a new buffer."""
        args.layout = self._layout(args.num_dims)

    @slot("PJRT_Layouts_PJRT_Buffer_MemoryLayout")
    def buffer_layout(self, args: Any) -> None:
        """Give the layout of a buffer."""
        args.layout = self._layout(BUFFER.read(args.buffer, "rank"))

    @slot("PJRT_Layouts_PJRT_Executable_GetOutputLayouts")
    def output_layouts(self, args: Any) -> None:
        """Give the layouts of a program's results."""
        executable = lookup(args.executable, LoadedExecutable)
        outputs = executable.executable.artifact.info.outputs
        args.num_outputs = len(outputs)
        args.layouts = executable.once(
            "layouts",
            lambda: executable.keep_words([self._layout(len(row.dims)) for row in outputs]),
        )

    @slot("PJRT_Layouts_PJRT_Executable_GetParameterLayouts")
    def parameter_layouts(self, args: Any) -> None:
        """Give those of its parameters; hosts without them decode the whole program."""
        executable = lookup(args.executable, LoadedExecutable)
        params = executable.executable.artifact.info.params
        args.num_parameters = len(params)
        args.layouts = executable.once(
            "parameter layouts",
            lambda: executable.keep_words([self._layout(len(row.dims)) for row in params]),
        )

    @slot("PJRT_Shardings_PJRT_Executable_ParameterShardings")
    def parameter_shardings(self, args: Any) -> None:
        """Say how a program's parameters are divided."""
        executable = lookup(args.executable, LoadedExecutable)
        found = executable.division.parameters
        args.num_parameters, args.shardings, args.sharding_sizes = executable.once(
            "parameter shardings", lambda: self._shardings(executable, found)
        )

    @slot("PJRT_Shardings_PJRT_Executable_OutputShardings")
    def output_shardings(self, args: Any) -> None:
        """Say how a program's results are divided."""
        executable = lookup(args.executable, LoadedExecutable)
        found = executable.division.results
        args.num_outputs, args.shardings, args.sharding_sizes = executable.once(
            "output shardings", lambda: self._shardings(executable, found)
        )

    def _shardings(
        self, executable: LoadedExecutable, shardings: Sequence[Sharding]
    ) -> tuple[int, int, int]:
        """Return count, texts and sizes; nothing is said of one device, or of no values."""
        if len(executable.devices) == 1 or not shardings:
            return 0, 0, 0
        data = [write_sharding(sharding) for sharding in shardings]
        texts = executable.keep_words([executable.keep_bytes(item) for item in data])
        return len(data), texts, executable.keep_words([len(item) for item in data])


def write_sharding(sharding: Sharding) -> bytes:
    """Return the OpSharding proto (xla/xla_data.proto)."""
    return encode(sharding_message(sharding.text()), "OpSharding")
