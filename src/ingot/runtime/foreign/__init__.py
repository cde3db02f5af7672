# SPDX-License-Identifier: Apache-2.0
"""Code that compiled programs call but Ingot did not generate: registered custom-call targets.

* `link`: linking foreign calls: from the call sites of an artifact to addresses for the host
  program;
* `register`: ingot.register_custom_call_target: the user's code as the target of custom calls;
* `builtin`: the targets that every program may call, registered when the first program is linked;
* `ffi`: XLA FFI: native custom-call handlers written against `xla/ffi/api/c_api.h`;
* `feeds`: queues between the host and running programs, for infeed and outfeed;
* `lapack`: the `lapack_*_ffi` custom-call targets that JAX emits on CPU, on SciPy's LAPACK;
* `random_state`: the state of `rng-get-and-update-state`, a 128-bit counter per call site, and
  `GetRngSeed`;
* `sink`: dce_sink: a call that does nothing but use its operands, so that they are computed;
* `sparse`: cpu_csr_sparse_dense_ffi: a sparse matrix in CSR format times a dense one, as emitted
  code;
* `tridiagonal`: tridiagonal_solve_perturbed_ffi: tridiagonal systems that may be singular, as
  emitted code;
* `capsules`: addresses of native code that Python has in capsules or ctypes functions;
* `collectives`: native collectives: virtual devices, one thread each, exchange bytes through one
  rendezvous;
* `evaluate`: evaluating linked targets: running the code of one call on NumPy arrays;
* `frames`: the frame of a foreign call, as emitted adapters read it;
* `python_targets`: Python functions as custom-call targets;
* `scalars`: scalar arithmetic on real or complex numbers, for emitted loops over elements of
  either;
* `attributes`: attributes of a custom call: the MLIR dictionary in its backend_config, with element
  types;
* `site`: foreign calls that are native code: one function with data per call site, or code of its
  own;
* `errors`: why a foreign call failed, passed from the call to the code that raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home

if TYPE_CHECKING:
    from ingot.runtime.foreign.register import register_custom_call_target

__all__ = ["register_custom_call_target"]

__getattr__ = names_at_home(__name__, {"register_custom_call_target": ".register"})
