# SPDX-License-Identifier: Apache-2.0
"""Real XLA, through jaxlib's CPU client: runs HLO text, for differential tests.

HLO text goes through XLA's own parser, so it also checks that what Ingot prints is XLA's HLO text.
The client takes StableHLO, so the parsed module passes through XLA's own translator on the way.

Example:
    outputs = run_hlo_text(text, [numpy.float32([1, 2])])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def parse(text: str) -> Any:
    """Return XLA's own HloModule of HLO text; raises XLA's error when XLA cannot read it."""
    from jaxlib import xla_client

    return xla_client.hlo.hlo_module_from_text(text)


def canonical_text(text: str) -> str:
    """Return XLA's own print of HLO text."""
    return str(parse(text).to_string())


def run_hlo_text(text: str, inputs: Sequence[Array]) -> list[Array]:
    """Compile HLO text with XLA and run it on `inputs`; the outputs, a result tuple flattened."""
    from jaxlib import _jax

    program = _jax.mlir.hlo_to_stablehlo(parse(text).as_serialized_hlo_module_proto())
    return run_stablehlo(program, inputs)


def run_stablehlo(program: str | bytes, inputs: Sequence[Array]) -> list[Array]:
    """Compile StableHLO, text or bytecode, with XLA and run it on `inputs`; the same outputs."""
    import jax
    from jax.extend.backend import get_backend
    from jaxlib import _jax, xla_client

    options = xla_client.CompileOptions()
    # Else XLA keeps bf16 and f16 intermediates in f32, and no two programs round alike.
    options.env_option_overrides = [("xla_allow_excess_precision", False)]
    client = get_backend("cpu")
    device = client.devices()[0]
    data = program.encode() if isinstance(program, str) else program
    executable = client.compile_and_load(data, _jax.DeviceList((device,)), options)
    with jax.enable_x64(True):
        buffers = [jax.device_put(np.asarray(value), device) for value in inputs]
        # The executable drops nothing: its parameters are the entry's, in order.
        results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return [np.asarray(shards[0]) for shards in results]
