# SPDX-License-Identifier: Apache-2.0
"""What cannot be in an artifact: refused before anything is compiled, with the op and its line.

Used by `build`. An artifact is on its own: there is no process of Ingot's that code outside could
be called in, and no runtime that could compile the rest of a program once a size is known.
"""

from __future__ import annotations

from ingot.hlo.custom_calls import call_sites
from ingot.hlo.module import Module
from ingot.hlo.size_definitions import defines_sizes
from ingot.support.diagnostics import UnsupportedError


def refuse_computed_sizes(module: Module) -> None:
    """Raise if sizes of arrays are computed by the program."""
    if defines_sizes(module):
        raise UnsupportedError(
            f"module '{module.name}' computes sizes of its arrays, which an artifact cannot yet",
            hint="give such arrays a static bound, or compile the parts before and after alone",
        )


def refuse_calls(module: Module) -> None:
    """Raise for the first call of code that is not in the program: LAPACK, Python, FFI."""
    for site in call_sites(module):
        raise UnsupportedError(
            f"'{site.target}' cannot be in an artifact: it is code outside the compiled program",
            op_type="custom-call",
            op_name=site.op_name,
            location=site.location,
            hint="compute this part before or after the compiled program",
        )
