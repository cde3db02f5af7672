# SPDX-License-Identifier: Apache-2.0
"""`import ingot.torch`: the public name of the PyTorch front end.

PyTorch finds the backend by itself: `torch.compile(model, backend="ingot")` needs no import.
"""

from ingot.frontends.torch.exported import initial_state
from ingot.frontends.torch.graphs import CompiledGraph, compiled_graphs

__all__ = ["CompiledGraph", "compiled_graphs", "initial_state"]
