# SPDX-License-Identifier: Apache-2.0
"""The C++ header of an artifact: the class that tfcompile generates.

Written by `build` for programs whose sizes are all known, as tfcompile's are. A class over the C
functions, in the header alone. Invariant: C++11 and its library, nothing of TensorFlow.

Source: tensorflow/compiler/tf2xla/xla_compiled_cpu_function.h, tensorflow/compiler/aot/codegen.cc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingot.artifact.metadata import OUT_OF_MEMORY, ArrayInfo, Metadata, shape_text
from ingot.support.diagnostics import UnsupportedError

_TYPES = {
    "pred": "bool",
    "f32": "float",
    "f64": "double",
    "c64": "std::complex<float>",
    "c128": "std::complex<double>",
    **{f"s{bits}": f"std::int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"std::uint{bits}_t" for bits in (8, 16, 32, 64)},
    "f16": "std::uint16_t",
    "bf16": "std::uint16_t",
}
"""C++'s type of an element; of others and of 16-bit floats, an integer of as many bytes."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_CLASS = re.compile(rf"(?:::)?{_NAME}(?:::{_NAME})*")


def cpp_header(metadata: Metadata, cpp_class: str, c_header: str) -> str:
    """Return the text of the header.

    Args:
        metadata: the program, without symbolic sizes.
        cpp_class: name of the class, with its namespaces: `foo::bar::Net`.
        c_header: the file that declares the C functions.

    Raises:
        UnsupportedError: the name is none, or a size of the program is symbolic.
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

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "{c_header}"

{opened}{_class(name, metadata)}{closed}
#endif  // {guard}
"""


def _class(name: str, metadata: Metadata) -> str:
    symbol, params, outputs = metadata.symbol, metadata.params, metadata.outputs
    arguments = "\n".join(_accessors("arg", number, row) for number, row in enumerate(params))
    results = "\n".join(_accessors("result", number, row) for number, row in enumerate(outputs))
    return f"""// As tfcompile's classes. An object is used by one thread at a time.
class {name} {{
 public:
  enum class AllocMode {{
    ARGS_RESULTS_PROFILES_AND_TEMPS,       // the object owns arguments and results
    RESULTS_PROFILES_AND_TEMPS_ONLY,       // set_argN_data says where the arguments are
  }};

  explicit {name}(AllocMode mode = AllocMode::ARGS_RESULTS_PROFILES_AND_TEMPS)
      : args_{{}}, owned_{{}}, results_{{}}, status_(0) {{
    static const std::size_t arg_bytes[] = {{{_sizes(params)}}};
    static const std::size_t result_bytes[] = {{{_sizes(outputs)}}};
    if (mode == AllocMode::ARGS_RESULTS_PROFILES_AND_TEMPS)
      for (std::size_t k = 0; k < kNumArgs; ++k) args_[k] = owned_[k] = allocate(arg_bytes[k]);
    for (std::size_t k = 0; k < kNumResults; ++k) results_[k] = allocate(result_bytes[k]);
  }}
  ~{name}() {{
    for (void* data : owned_) std::free(data);
    for (void* data : results_) std::free(data);
  }}
  {name}(const {name}&) = delete;
  {name}& operator=(const {name}&) = delete;

  static constexpr std::size_t kNumArgs = {len(params)};
  static constexpr std::size_t kNumResults = {len(outputs)};

  // Runs the program; false if it failed, and error_msg() says why.
  bool Run() {{
    for (std::size_t k = 0; k < kNumArgs; ++k)
      if (args_[k] == nullptr) return (status_ = kNoArgument) == 0;
    for (std::size_t k = 0; k < kNumResults; ++k)
      if (results_[k] == nullptr) return (status_ = {OUT_OF_MEMORY}) == 0;
    return (status_ = ::{symbol}(args_, results_)) == 0;
  }}
  const char* error_msg() const {{
    return status_ == kNoArgument ? "an argument has no data" : ::{symbol}_error_msg(status_);
  }}

  void* arg_data(std::size_t index) {{ return const_cast<void*>(args_[index]); }}
  void set_arg_data(std::size_t index, const void* data) {{ args_[index] = data; }}
  void* result_data(std::size_t index) {{ return results_[index]; }}
{arguments}
{results}

 private:
  static constexpr std::int32_t kNoArgument = INT32_MIN + 2;
  static void* allocate(std::size_t bytes) {{
    return aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0));
  }}
  // One more than needed: there are no arrays of no elements.
  const void* args_[kNumArgs + 1];
  void* owned_[kNumArgs + 1];
  void* results_[kNumResults + 1];
  std::int32_t status_;
}};
"""


def _element_bytes(array: ArrayInfo) -> int:
    return _BYTES.get(array.dtype, 1)


_BYTES = {"c64": 8, "c128": 16, "f64": 8, "f32": 4, "f16": 2, "bf16": 2} | {
    f"{sign}{bits}": bits // 8 for sign in "su" for bits in (8, 16, 32, 64)
}


def _count(array: ArrayInfo) -> int:
    count = 1
    for dim in array.dims:
        assert dim is not None, "the program is static"
        count *= dim
    return count


def _sizes(arrays: Sequence[ArrayInfo]) -> str:
    return ", ".join(str(_count(one) * _element_bytes(one)) for one in arrays) or "0"


def _accessors(kind: str, number: int, array: ArrayInfo) -> str:
    """Return the members of one argument or result."""
    item, table = _TYPES.get(array.dtype, "std::uint8_t"), "args_" if kind == "arg" else "results_"
    name, count = f"{kind}{number}", _count(array)
    indices = ", ".join(f"std::size_t dim{n}" for n in range(len(array.dims)))
    place = "0"
    for n, dim in enumerate(array.dims):
        place = f"dim{n}" if n == 0 else f"({place}) * {dim} + dim{n}"
    pointer = f"{table}[{number}]"
    mutable = f"const_cast<void*>({pointer})" if kind == "arg" else pointer
    lines = [
        f"  // {shape_text(array)}  {' '.join(array.name.split())}",
        f"  {item}* {name}_data() {{ return static_cast<{item}*>({mutable}); }}",
        f"  const {item}* {name}_data() const {{ return static_cast<const {item}*>({pointer}); }}",
        f"  {item}& {name}({indices}) {{ return {name}_data()[{place}]; }}",
        f"  static constexpr std::size_t {name}_count() {{ return {count}; }}",
    ]
    if kind == "arg":
        lines.append(f"  void set_{name}_data(const void* data) {{ {pointer} = data; }}")
    return "\n".join(lines)
