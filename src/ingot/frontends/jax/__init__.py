# SPDX-License-Identifier: Apache-2.0
"""JAX on Ingot: `JAX_PLATFORMS=ingot python any_jax_program.py`.

JAX finds this module through the entry-point group `jax_plugins` and calls `initialize()`. The
device is Ingot's PJRT client (`ingot.client.pjrt`). Invariant: importing this module imports
neither JAX nor the compiler, and a process whose JAX uses other platforms is not changed.

* `registration`: Ingot as a platform of JAX: the backend factory, and the names under which it is
  known;
* `compilation`: programs for one device are passed from JAX to Ingot directly, not as a portable
  artifact;
* `costs`: `jit(f).lower(...).cost_analysis()` on Ingot: the costs of the compiled program;
* `dlpack`: `jax.dlpack.from_dlpack(..., copy=True)` on Ingot;
* `ffi`: native FFI handlers: those of `jax.ffi.register_ffi_target`, for Ingot's custom calls;
* `lowerings`: ops of JAX that Ingot is given whole, where JAX's CPU lowering writes something
  slower;
* `partitioning`: functions of custom_partitioning on Ingot: their own partitioners make the program
  of a device;
* `platforms`: which platforms JAX was told to use;
* `series`: the release series of JAX that the front end is tested with, and the names that it needs
  in JAX;
* `callbacks`: host callbacks: pure_callback, io_callback, debug.print, buffer_callback on Ingot;
* `headers`: IFRT's description of a program's parameters and results, as jaxlib serializes it;
* `buffers`: the arguments of a buffer_callback: the memory of operands and results, and a context.
"""

from __future__ import annotations


def initialize() -> None:
    """Register the platform `ingot`, unless JAX was told to use others only."""
    from ingot.frontends.jax.platforms import is_wanted

    if is_wanted():
        from ingot.support.collector import importing
        from ingot.support.quick_exit import exit_quickly

        with importing():
            from ingot.frontends.jax.registration import register

        register()
        exit_quickly()


__all__ = ["initialize"]
