# SPDX-License-Identifier: Apache-2.0
"""The text of the C++ class of an artifact, with the members of tfcompile's.

`cpp_header` uses it. `pool_text` lets the class run on another thread pool, such as Eigen's: tasks
of the pool and the caller take chunks in turn, and the caller waits for chunks, never for tasks
that did not begin. So it works even if all threads of the pool are busy.

Source: tensorflow/compiler/tf2xla/xla_compiled_cpu_function.h, tensorflow/compiler/aot/codegen.cc.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ingot.artifact.metadata import OUT_OF_MEMORY, ArrayInfo, Metadata, shape_text
from ingot.support.regex import regex

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
"""C++'s type of an element; for 16-bit floats and others, an integer of the same size."""

_BYTES = {"c64": 8, "c128": 16, "f64": 8, "f32": 4, "f16": 2, "bf16": 2} | {
    f"{sign}{bits}": bits // 8 for sign in "su" for bits in (8, 16, 32, 64)
}
_IDENTIFIER = regex(r"[A-Za-z_][A-Za-z0-9_]*")


def pool_text() -> str:
    """Return the helper that all headers share: chunks on a pool with Eigen's functions."""
    return """#ifndef INGOT_AOT_POOL_
#define INGOT_AOT_POOL_
namespace ingot_aot {

// The chunks of one call, for the tasks that share them.
struct Chunks {
  void (*function)(void*, std::int64_t);
  void* env;
  std::int64_t count;
  std::atomic<std::int64_t> next, done;
  std::mutex mutex;
  std::condition_variable finished;

  void work() {
    std::int64_t mine = 0;
    for (std::int64_t chunk; (chunk = next.fetch_add(1)) < count; ++mine) function(env, chunk);
    if (mine != 0 && done.fetch_add(mine) + mine == count) {
      std::lock_guard<std::mutex> held(mutex);
      finished.notify_all();
    }
  }
};

// Runs chunks on a device with numThreads() and enqueueNoNotification(f): Eigen::ThreadPoolDevice.
template <class Device>
void run_chunks(void* device, void (*function)(void*, std::int64_t), void* env,
                std::int64_t count) {
  const Device& pool = *static_cast<const Device*>(device);
  std::shared_ptr<Chunks> chunks = std::make_shared<Chunks>();
  chunks->function = function;
  chunks->env = env;
  chunks->count = count;
  chunks->next = 0;
  chunks->done = 0;
  std::int64_t helpers = static_cast<std::int64_t>(pool.numThreads());
  if (helpers > count - 1) helpers = count - 1;
  for (std::int64_t k = 0; k < helpers; ++k)
    pool.enqueueNoNotification([chunks]() { chunks->work(); });
  chunks->work();
  std::unique_lock<std::mutex> held(chunks->mutex);
  chunks->finished.wait(held, [&chunks]() { return chunks->done.load() == chunks->count; });
}

}  // namespace ingot_aot
#endif
"""


def class_text(name: str, metadata: Metadata) -> str:
    """Return the text of the class.

    Args:
        name: of the class, without its namespaces.
        metadata: the program, which has no symbolic sizes.
    """
    return f"""// As tfcompile's classes. An object is used by one thread at a time.
class {name} {{
 public:
{_construction(name)}{_tables(metadata)}{_weights(metadata)}{_threads(metadata)}
{_run(metadata.symbol)}{_THREAD_POOL}{_ARRAYS}{_all_accessors("arg", metadata.params)}
{_all_accessors("result", metadata.outputs)}

{_private(metadata.symbol.upper())}}};
"""


def _construction(name: str) -> str:
    """Return what makes and frees an object, with the memory of its arguments and results."""
    return f"""  enum class AllocMode {{
    ARGS_RESULTS_PROFILES_AND_TEMPS,       // the object owns arguments and results
    ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS = ARGS_RESULTS_PROFILES_AND_TEMPS,
    RESULTS_PROFILES_AND_TEMPS_ONLY,       // set_argN_data says where the arguments are
  }};
  typedef void (*Parallel)(void* pool, void (*function)(void* env, std::int64_t chunk), void* env,
                           std::int64_t chunks);

  explicit {name}(AllocMode mode = AllocMode::ARGS_RESULTS_PROFILES_AND_TEMPS)
      : args_{{}}, owned_{{}}, results_{{}}, sizes_{{}}, is_prepared_(false), parallel_(nullptr),
        pool_(nullptr), status_(0) {{
    if (mode == AllocMode::ARGS_RESULTS_PROFILES_AND_TEMPS)
      for (std::size_t k = 0; k < kNumArgs; ++k) args_[k] = owned_[k] = allocate(ArgSize(k));
    for (std::size_t k = 0; k < kNumResults; ++k) results_[k] = allocate(ResultSize(k));
  }}
  ~{name}() {{
    for (void* data : owned_) std::free(data);
    for (void* data : results_) std::free(data);
  }}
  {name}(const {name}&) = delete;
  {name}& operator=(const {name}&) = delete;

"""


def _tables(metadata: Metadata) -> str:
    """Return the sizes and names of arguments and results, for all objects of the class."""
    params, outputs = metadata.params, metadata.outputs
    return f"""  static constexpr std::size_t kNumArgs = {len(params)};
  static constexpr std::size_t kNumResults = {len(outputs)};
  static constexpr std::size_t kNumVariables = 0;

  // Bytes of an argument or result; names, and the index of a name, -1 if there is none.
  static std::int64_t ArgSize(std::size_t index) {{
    static const std::int64_t bytes[] = {{{_sizes(params)}}};
    return bytes[index];
  }}
  static std::int64_t ResultSize(std::size_t index) {{
    static const std::int64_t bytes[] = {{{_sizes(outputs)}}};
    return bytes[index];
  }}
  static const char** StaticArgNames() {{
    static const char* names[] = {{{_names(params)}}};
    return names;
  }}
  static const char** StaticResultNames() {{
    static const char* names[] = {{{_names(outputs)}}};
    return names;
  }}
  static int LookupArgIndex(const std::string& name) {{
    return lookup(StaticArgNames(), kNumArgs, name);
  }}
  static int LookupResultIndex(const std::string& name) {{
    return lookup(StaticResultNames(), kNumResults, name);
  }}
"""


def _run(symbol: str) -> str:
    """Return the function that runs the program, and what says why it failed."""
    return f"""  // Runs the program; false if it failed, and error_msg() says why.
  bool Run() {{
    for (std::size_t k = 0; k < kNumArgs; ++k)
      if (args_[k] == nullptr) return (status_ = kNoArgument) == 0;
    for (std::size_t k = 0; k < kNumResults; ++k)
      if (results_[k] == nullptr) return (status_ = {OUT_OF_MEMORY}) == 0;
    if (!is_prepared_) {{
      if ((status_ = ::{symbol}_prepare(nullptr, sizes_)) != 0) return false;
      is_prepared_ = true;
    }}
    status_ = parallel_ == nullptr
                  ? ::{symbol}_execute(args_, results_, sizes_)
                  : ::{symbol}_execute_on(args_, results_, sizes_, parallel_, pool_);
    return status_ == 0;
  }}
  const char* error_msg() const {{
    return status_ == kNoArgument ? "an argument has no data" : ::{symbol}_error_msg(status_);
  }}

"""


_THREAD_POOL = """\
  // Runs on the threads of an Eigen::ThreadPoolDevice, or of what has numThreads() and
  // enqueueNoNotification(f). The device must outlive this object. nullptr: this thread alone.
  template <class Device>
  void set_thread_pool(const Device* device) {
    set_thread_pool(device == nullptr ? nullptr : &ingot_aot::run_chunks<Device>,
                    const_cast<Device*>(device));
  }
  // Runs on whatever `parallel` does: it calls function(env, chunk) for every chunk below `chunks`.
  void set_thread_pool(Parallel parallel, void* pool) {
    parallel_ = parallel;
    pool_ = pool;
  }

"""
"""The functions that choose the threads of an object."""

_ARRAYS = """\
  int num_args() const { return kNumArgs; }
  int num_results() const { return kNumResults; }
  std::int64_t arg_size(std::size_t index) const { return ArgSize(index); }
  std::int64_t result_size(std::size_t index) const { return ResultSize(index); }
  const void* const* args() const { return args_; }
  void** results() { return results_; }
  const void* const* results() const { return results_; }
  void* arg_data(std::size_t index) { return const_cast<void*>(args_[index]); }
  const void* arg_data(std::size_t index) const { return args_[index]; }
  void set_arg_data(std::size_t index, const void* data) { args_[index] = data; }
  void* result_data(std::size_t index) { return results_[index]; }
  const void* result_data(std::size_t index) const { return results_[index]; }
"""
"""Access to arguments and results by number."""


def _private(upper: str) -> str:
    """Return the private members; `upper` begins the names of the header's macros."""
    return f""" private:
  static constexpr std::int32_t kNoArgument = INT32_MIN + 2;
  static void* allocate(std::size_t bytes) {{
    return aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0));
  }}
  static int lookup(const char** names, std::size_t count, const std::string& name) {{
    for (std::size_t k = 0; k < count; ++k)
      if (name == names[k]) return static_cast<int>(k);
    return -1;
  }}
  // One more than needed: there are no arrays of no elements.
  const void* args_[kNumArgs + 1];
  void* owned_[kNumArgs + 1];
  void* results_[kNumResults + 1];
  std::int64_t sizes_[{upper}_NUM_SIZES];
  bool is_prepared_;
  Parallel parallel_;
  void* pool_;
  std::int32_t status_;
"""


def _weights(metadata: Metadata) -> str:
    """Return the function that loads the weights, for all objects of the class."""
    if metadata.weights == "inside":
        return ""
    symbol = metadata.symbol
    text = f"""
  // Sets the weights for all objects; an empty string, or what went wrong.
  static const char* set_weights(const void* data, std::int64_t bytes) {{
    return ::{symbol}_error_msg(::{symbol}_set_weights(data, bytes));
  }}
"""
    if metadata.weights == "beside":
        text += f"""  static const char* load_weights(const char* path = nullptr) {{
    return ::{symbol}_error_msg(::{symbol}_load_weights(path));
  }}
"""
    return text


def _threads(metadata: Metadata) -> str:
    if metadata.threads == "none":
        return ""
    return f"""
  // Threads of the program's own pool, for all objects that have no other; first 1.
  static std::int32_t set_threads(std::int32_t count) {{
    return ::{metadata.symbol}_set_threads(count);
  }}
"""


def _count(array: ArrayInfo) -> int:
    count = 1
    for dim in array.dims:
        assert dim is not None, "the program is static"
        count *= dim
    return count


def _sizes(arrays: Sequence[ArrayInfo]) -> str:
    rows = (str(_count(one) * _BYTES.get(one.dtype, 1)) for one in arrays)
    return ", ".join(rows) or "0"


def _names(arrays: Sequence[ArrayInfo]) -> str:
    return ", ".join(json.dumps(one.name) for one in arrays) or "nullptr"


def _all_accessors(kind: str, arrays: Sequence[ArrayInfo]) -> str:
    """Return the members of all arguments or results; names that occur twice are left out."""
    names = [array.name for array in arrays]
    rows = (_accessors(kind, n, row, names.count(row.name) == 1) for n, row in enumerate(arrays))
    return "\n".join(rows)


def _accessors(kind: str, number: int, array: ArrayInfo, by_name: bool) -> str:
    """Return the members of one argument or result, by number and by name."""
    names = [f"{kind}{number}"]
    if by_name and _IDENTIFIER.fullmatch(array.name):
        names.append(f"{'arg_feed' if kind == 'arg' else 'result_fetch'}_{array.name}")
    head = f"  // {shape_text(array)}  {' '.join(array.name.split())}"
    return "\n".join([head, *(_members(kind, number, array, name) for name in names)])


def _members(kind: str, number: int, array: ArrayInfo, name: str) -> str:
    item, table = _TYPES.get(array.dtype, "std::uint8_t"), "args_" if kind == "arg" else "results_"
    indices = ", ".join(f"std::size_t dim{n}" for n in range(len(array.dims)))
    offset = "0"
    for n, dim in enumerate(array.dims):
        offset = f"dim{n}" if n == 0 else f"({offset}) * {dim} + dim{n}"
    pointer = f"{table}[{number}]"
    mutable = f"const_cast<void*>({pointer})" if kind == "arg" else pointer
    lines = [
        f"  {item}* {name}_data() {{ return static_cast<{item}*>({mutable}); }}",
        f"  const {item}* {name}_data() const {{ return static_cast<const {item}*>({pointer}); }}",
        f"  {item}& {name}({indices}) {{ return {name}_data()[{offset}]; }}",
        f"  const {item}& {name}({indices}) const {{ return {name}_data()[{offset}]; }}",
        f"  static constexpr std::size_t {name}_count() {{ return {_count(array)}; }}",
        f"  static constexpr std::size_t {name}_size() {{ return {_sizes([array])}; }}",
    ]
    if kind == "arg":
        lines.append(f"  void set_{name}_data(const void* data) {{ {pointer} = data; }}")
    return "\n".join(lines)
