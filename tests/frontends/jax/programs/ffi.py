# SPDX-License-Identifier: Apache-2.0
"""A native handler written with XLA's `ffi.h`, registered before JAX knows its platform."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

SOURCE = r"""
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

ffi::Error Scale(float factor, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (factor < 0) return ffi::Error::InvalidArgument("the factor is negative");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ScaleHandler, Scale,
    ffi::Ffi::Bind().Attr<float>("factor").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def build() -> bool:
    compiler = shutil.which("c++")
    if compiler is None:
        return False
    folder = Path(tempfile.mkdtemp())
    (folder / "scale.cc").write_text(SOURCE)
    library = folder / "scale.so"
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}"]
    command = [compiler, *flags, str(folder / "scale.cc"), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    handler = ctypes.CDLL(str(library)).ScaleHandler
    jax.ffi.register_ffi_target("scale", jax.ffi.pycapsule(handler), platform="cpu")
    return True


BUILT = build()


def scale(x, factor):
    call = jax.ffi.ffi_call("scale", jax.ShapeDtypeStruct(x.shape, x.dtype))
    return call(x, factor=np.float32(factor))


def case_call():
    return jax.jit(lambda x: scale(x, 3) + 1)(X) if BUILT else ()


def case_vmap():
    f = jax.ffi.ffi_call("scale", jax.ShapeDtypeStruct((4,), jnp.float32), vmap_method="sequential")
    return jax.vmap(lambda r: f(r, factor=np.float32(2)))(X) if BUILT else ()


def case_error():
    try:
        return jax.jit(lambda x: scale(x, -1))(X).block_until_ready() if BUILT else True
    except jax.errors.JaxRuntimeError as error:
        text = str(error)
        return text.startswith("INVALID_ARGUMENT"), "the factor is negative" in text
