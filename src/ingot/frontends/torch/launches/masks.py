# SPDX-License-Identifier: Apache-2.0
"""Masks of writes whose sizes only a call can compare with the tensor's: `open_masks(nodes)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ingot.frontends.torch.fx.locations import metadata_of
from ingot.frontends.torch.fx.nodes import Node
from ingot.frontends.torch.fx.sizes import Sizes, sizes_of
from ingot.frontends.torch.launches.errors import TorchIndexError
from ingot.frontends.torch.lowering.indexing_ops.index_checks import mask_message
from ingot.support.records import record

_ATEN: Any = torch.ops.aten


@record
class OpenMask:
    """The mask of a write whose sizes can be compared with the tensor's only in a call.

    Attributes:
        node: the op.
        mask: the sizes of the mask.
        sizes: those of the tensor.
        begin: the dimension of the tensor at which those of the mask begin.
    """

    node: Node
    mask: Sizes
    sizes: Sizes
    begin: int

    def refuse(self, mask: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        """Raise the error for a call in which the sizes differ.

        Raises:
            TorchIndexError: INGOT0505, always.
        """
        pairs = enumerate(zip(mask, sizes[self.begin :], strict=False))
        axis = next(number for number, (have, want) in pairs if have != want)
        raise TorchIndexError(
            mask_message(mask, axis, sizes, self.begin + axis),
            code="INGOT0505",
            op_type=str(self.node.target),
            op_name=self.node.name,
            location=metadata_of(self.node).location,
        )


def open_masks(nodes: Iterable[Node]) -> list[OpenMask]:
    """Return the masks of `index_put` whose sizes only a call can check."""
    found: list[OpenMask] = []
    for node in nodes:
        if node.target is not _ATEN.index_put.default:
            continue
        sizes = sizes_of(node.args[0].meta["val"].shape)
        for begin, index in enumerate(node.args[1]):
            if index is None or index.meta["val"].dtype not in (torch.bool, torch.uint8):
                continue
            mask = sizes_of(index.meta["val"].shape)
            if mask != sizes[begin : begin + len(mask)]:
                found.append(OpenMask(node, mask, sizes, begin))
    return found
