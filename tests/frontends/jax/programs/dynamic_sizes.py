# SPDX-License-Identifier: Apache-2.0
"""Results of dynamic size through PJRT: elements first, in an array at the bound."""

import jax
import numpy as np
from jax.extend.backend import get_backend
from jaxlib import _jax, xla_client

TEXT = """HloModule m
ENTRY e {
  x = s32[2,5] parameter(0)
  n = s32[] parameter(1)
  d = s32[2,<=5] set-dimension-size(x, n), dimensions={1}
  r = s32[2,<=5] reverse(d), dimensions={1}
  ROOT t = (s32[2,<=5], s32[]) tuple(r, n)
}"""


def case_results():
    client = get_backend()
    device = client.devices()[0]
    module = xla_client.hlo.hlo_module_from_text(TEXT).as_serialized_hlo_module_proto()
    program = _jax.mlir.hlo_to_stablehlo(module)
    devices = _jax.DeviceList((device,))
    executable = client.compile_and_load(program, devices, xla_client.CompileOptions())
    found = []
    for size in (0, 1, 3, 5):
        x = jax.device_put(np.arange(10, dtype=np.int32).reshape(2, 5), device)
        n = jax.device_put(np.int32(size), device)
        results = executable.execute_sharded([x, n]).disassemble_into_single_device_arrays()
        whole = np.asarray(results[0][0])
        found.append((whole.shape, whole.reshape(-1)[: 2 * size]))
    return found
