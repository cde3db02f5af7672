# SPDX-License-Identifier: Apache-2.0
"""The C++ header of an artifact: the class that tfcompile generates.

`build` writes it for programs whose sizes are all known, as tfcompile's are. It is a header-only
class over the C functions; `cpp_class` has its body. Invariant: it needs C++11 and its library, but
nothing of TensorFlow.

Source: tensorflow/compiler/tf2xla/xla_compiled_cpu_function.h, tensorflow/compiler/aot/codegen.cc.
"""

from __future__ import annotations

from ingot.aot.cpp_class import class_text, pool_text
from ingot.artifact.metadata import Metadata
from ingot.support.diagnostics import UnsupportedError
from ingot.support.regex import regex

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_CLASS = regex(rf"(?:::)?{_NAME}(?:::{_NAME})*")


def cpp_header(metadata: Metadata, cpp_class: str, c_header: str) -> str:
    """Return the text of the header.

    Args:
        metadata: the program, without symbolic sizes.
        cpp_class: name of the class, with its namespaces: `foo::bar::Net`.
        c_header: the file that declares the C functions.

    Raises:
        UnsupportedError: the name is invalid, or a size of the program is symbolic.
    """
    if not _CLASS.fullmatch(cpp_class):
        raise UnsupportedError(
            f"'{cpp_class}' cannot be the name of a C++ class", hint="use a name like foo::bar::Net"
        )
    if not metadata.is_static:
        raise UnsupportedError(
            f"'{metadata.symbol}' has symbolic sizes, and the C++ class owns buffers of fixed size",
            hint="call the C functions, which take sizes, or give the parameters fixed dimensions",
        )
    *spaces, name = cpp_class.removeprefix("::").split("::")
    guard = f"INGOT_AOT_{'_'.join([*spaces, name]).upper()}_HPP_"
    opened = "".join(f"namespace {space} {{\n" for space in spaces)
    closed = "".join(f"}}  // namespace {space}\n" for space in reversed(spaces))
    return f"""// {cpp_class}: compiled by Ingot {metadata.version}.
#ifndef {guard}
#define {guard}

#include <atomic>
#include <complex>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "{c_header}"

{pool_text()}
{opened}{class_text(name, metadata)}{closed}
#endif  // {guard}
"""
