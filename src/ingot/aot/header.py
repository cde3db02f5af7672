# SPDX-License-Identifier: Apache-2.0
"""The C header of an artifact: what it computes, and the functions that compute it.

`build` writes it next to the object. Invariant: it needs only <stdint.h>, in C99 and C++.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.artifact.metadata import Metadata, shape_text


def c_header(messages: Mapping[int, str], metadata: Metadata) -> str:
    """Return the text of the header.

    Args:
        messages: the meaning of each status.
        metadata: the program.
    """
    functions = (_static_call, _levels, _weights, _threads, _calls)
    guard = f"INGOT_AOT_{metadata.symbol.upper()}_H_"
    return f"""{_head(messages, metadata)}#ifndef {guard}
#define {guard}

#include <stdint.h>

{_sizes(metadata)}#ifdef __cplusplus
extern "C" {{
#endif

{"".join(part(metadata) for part in functions)}#ifdef __cplusplus
}}
#endif

#endif
"""


def _head(messages: Mapping[int, str], metadata: Metadata) -> str:
    """Return the comment on the program: its target, arguments, results and statuses."""
    statuses = "\n".join(f" *   {code}: {_plain(text)}" for code, text in messages.items())
    target = f"{metadata.triple}, {' or '.join(metadata.levels)}"
    return f"""/* {metadata.symbol}: compiled by Ingot {metadata.version} for {target}.
 *
{_arrays("args", metadata)}
 *
{_arrays("results", metadata)}
 *
{_slots(metadata)} * Arrays are dense, row-major, and aligned to their elements. Every function
 * may be called from any number of threads at once. A status of 0 is success; else:
{statuses}
 */
"""


def _sizes(metadata: Metadata) -> str:
    """Return the macros of how many arguments, results and sizes there are."""
    symbol, upper = metadata.symbol, metadata.symbol.upper()
    return f"""#define {upper}_NUM_ARGS {len(metadata.params)}
#define {upper}_NUM_RESULTS {len(metadata.outputs)}
/* Elements of `sizes`. After {symbol}_prepare, result k has sizes[OUTPUT_BYTES + k] bytes; the
 * dimensions of all results follow each other from sizes[OUTPUT_DIMS]. */
#define {upper}_NUM_SIZES {metadata.num_sizes}
#define {upper}_OUTPUT_BYTES {metadata.output_bytes}
#define {upper}_OUTPUT_DIMS {metadata.output_dims}

"""


def _levels(metadata: Metadata) -> str:
    """Return the declarations that tell whether and how this CPU runs the program."""
    symbol = metadata.symbol
    return f"""/* Whether this CPU has the instructions of the code. */
int32_t {symbol}_supported(void);

/* Which version of the code this CPU runs: {", ".join(metadata.levels)}; "" if none. */
const char* {symbol}_level(void);

"""


def _calls(metadata: Metadata) -> str:
    """Return the declarations that prepare and run the program, and describe it."""
    symbol, where = metadata.symbol, _where(metadata)
    return f"""/* Checks the dimensions of the arguments and
 * computes sizes. in_dims[k] has those of argument k. */
int32_t {symbol}_prepare(const int64_t* const* in_dims, int64_t* sizes);

/* Runs the program{where}, for sizes that {symbol}_prepare computed. */
int32_t {symbol}_execute(const void* const* args, void* const* results, const int64_t* sizes);

/* The same on the caller's threads: `parallel` calls function(env, chunk) for every chunk below
 * `chunks`, in any order and on any thread, and returns when all are done. */
int32_t {symbol}_execute_on(
    const void* const* args, void* const* results, const int64_t* sizes,
    void (*parallel)(void* pool, void (*function)(void* env, int64_t chunk), void* env,
                     int64_t chunks),
    void* pool);

/* What a status means. */
const char* {symbol}_error_msg(int32_t status);

/* What the program is and was compiled for, as JSON. */
const char* {symbol}_metadata(void);

"""


def _where(metadata: Metadata) -> str:
    return " on this thread" if metadata.threads == "none" else ""


def _slots(metadata: Metadata) -> str:
    if not metadata.triple.startswith("wasm32"):
        return ""
    return (
        " * Elements of tables of addresses (in_dims, args, results) have 8 bytes, of which the\n"
        " * first four are the address. Names are those of the module's exports.\n *\n"
    )


def _weights(metadata: Metadata) -> str:
    """Return the declarations for loading weights, if they are outside of the library."""
    if metadata.weights == "inside":
        return ""
    symbol, upper = metadata.symbol, metadata.symbol.upper()
    text = f"""/* Weights are not inside. Set them before anything else; the first stay in use. */
#define {upper}_WEIGHTS_BYTES INT64_C({metadata.constant_bytes})

/* Takes the contents of {metadata.weights_file}, aligned to 64 bytes; checks size and checksum. */
int32_t {symbol}_set_weights(const void* data, int64_t bytes);

"""
    if metadata.weights == "caller":
        return text
    return f"""{text}/* Maps a file and sets it. NULL: {metadata.weights_file}, in the folder of the
 * library or program that this code is in. Does nothing if weights are set. */
int32_t {symbol}_load_weights(const char* path);

"""


def _threads(metadata: Metadata) -> str:
    if metadata.threads == "none":
        return ""
    symbol = metadata.symbol
    return f"""/* How many threads run the program from now on, the caller's included; first 1. They
 * are started when there is work for them, and kept. Returns the count that is in force. */
int32_t {symbol}_set_threads(int32_t count);

"""


def _static_call(metadata: Metadata) -> str:
    if not metadata.is_static:
        return ""
    call = f"int32_t {metadata.symbol}(const void* const* args, void* const* results);"
    return f"/* Runs the program{_where(metadata)}. */\n{call}\n\n"


def _arrays(table: str, metadata: Metadata) -> str:
    arrays = metadata.params if table == "args" else metadata.outputs
    lines = [
        f" * {table}[{number}]: {shape_text(array)}  {_plain(array.name)}"
        for number, array in enumerate(arrays)
    ]
    return "\n".join(lines) or f" * {table}: none"


def _plain(text: str) -> str:
    """Return a text on one line that does not end the comment."""
    return " ".join(text.split()).replace("*/", "* /")
